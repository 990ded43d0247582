//! The cost of TLS: `tls [ROUNDS [MEBIBYTES]]` sends payloads of 1 MiB over loopback, each with a header and with its CRC-32C computed at
//! both ends as the store does, alternating plain and encrypted on persistent connections. Prints the rates and the ratio of each pair,
//! then round trips, then full and resumed handshakes.

use std::io::IoSlice;
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};
use thalweg_bulk::crc32c;
use thalweg_wire::{Channel, ClientTls, ServerKey, ServerTls};

const PAYLOAD_BYTES: usize = 1 << 20;
const HEADER_BYTES: usize = 64;
const PATIENCE: Duration = Duration::from_secs(30);

fn main() {
    let number = |place, default| std::env::args().nth(place).map_or(default, |text| text.parse().expect("a number"));
    let (rounds, mebibytes) = (number(1, 9), number(2, 512));
    let server = ServerTls::new(&ServerKey::from_seed(&[7; 32]).expect("a key")).expect("TLS");
    let client = ClientTls::new().expect("TLS");

    let mut plain = pair(Channel::plain, Channel::plain);
    let mut tls = tls_pair(&client, &server);
    stream(&mut plain, 64);
    stream(&mut tls, 64);
    let pairs: Vec<(f64, f64)> = (0..rounds).map(|_| (stream(&mut plain, mebibytes), stream(&mut tls, mebibytes))).collect();
    let rates = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).collect::<Vec<f64>>();
    print("plain, MiB/s", rates(|pair| pair.0));
    print("TLS, MiB/s", rates(|pair| pair.1));
    print("TLS / plain", rates(|pair| pair.1 / pair.0));

    let times: Vec<(f64, f64)> = (0..rounds).map(|_| (trips(&mut plain), trips(&mut tls))).collect();
    print("round trip of 200 bytes, plain, us", times.iter().map(|pair| pair.0).collect());
    print("round trip of 200 bytes, TLS, us", times.iter().map(|pair| pair.1).collect());

    let full = || ClientTls::new().expect("TLS");
    print("handshake from nothing, us", handshakes(&server, &full, false));
    print("handshake resumed, us", handshakes(&server, &|| client.clone(), true));
}

fn print(what: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    println!("{what:<36} median {:>9.3}  min {:>9.3}  max {:>9.3}", values[values.len() / 2], values[0], values[values.len() - 1]);
}

fn by() -> Instant {
    Instant::now() + PATIENCE
}

fn pair(ours: impl Fn(TcpStream) -> Channel, theirs: impl Fn(TcpStream) -> Channel + Sync) -> (Channel, Channel) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let quick = |stream: TcpStream| {
        stream.set_nodelay(true).expect("an option");
        stream
    };
    std::thread::scope(|scope| {
        let accepted = scope.spawn(|| theirs(quick(listener.accept().expect("a connection").0)));
        (ours(quick(TcpStream::connect(address).expect("a connection"))), accepted.join().expect("an end"))
    })
}

fn tls_pair(client: &ClientTls, server: &ServerTls) -> (Channel, Channel) {
    pair(
        |stream| Channel::client(stream, client, Some(server.fingerprint()), by()).expect("a handshake"),
        |stream| Channel::server(stream, server, by()).expect("a handshake"),
    )
}

/// Sends this many MiB one way; returns MiB/s.
fn stream((from, to): &mut (Channel, Channel), mebibytes: usize) -> f64 {
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let payload: Vec<u8> = (0..PAYLOAD_BYTES).map(|i| (i * 31) as u8).collect();
            let mut header = [0_u8; HEADER_BYTES];
            for _ in 0..mebibytes {
                header[..4].copy_from_slice(&crc32c(&payload).to_le_bytes());
                from.send_pieces(&mut [IoSlice::new(&header), IoSlice::new(&payload)]).expect("it is sent");
            }
        });
        let (mut header, mut payload) = ([0_u8; HEADER_BYTES], vec![0_u8; PAYLOAD_BYTES]);
        for _ in 0..mebibytes {
            to.receive_exact(&mut header).expect("a header");
            to.receive_payload(&mut payload, PATIENCE).expect("a payload");
            assert_eq!(header[..4], crc32c(&payload).to_le_bytes());
        }
    });
    mebibytes as f64 / begun.elapsed().as_secs_f64()
}

/// Returns the microseconds of a round trip.
fn trips((one, other): &mut (Channel, Channel)) -> f64 {
    const TRIPS: u32 = 2000;
    let begun = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut message = [0_u8; 200];
            for _ in 0..TRIPS {
                other.receive_exact(&mut message).expect("a question");
                other.send_pieces(&mut [IoSlice::new(&message)]).expect("an answer");
            }
        });
        let mut message = [1_u8; 200];
        for _ in 0..TRIPS {
            one.send_pieces(&mut [IoSlice::new(&message)]).expect("a question");
            one.receive_exact(&mut message).expect("an answer");
        }
    });
    begun.elapsed().as_secs_f64() * 1e6 / f64::from(TRIPS)
}

/// Returns the microseconds from a connected socket until the client may send.
fn handshakes(server: &ServerTls, client: &dyn Fn() -> ClientTls, is_resumed: bool) -> Vec<f64> {
    const MANY: usize = 200;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..=MANY {
                let (stream, _) = listener.accept().expect("a connection");
                stream.set_nodelay(true).expect("an option");
                let mut channel = Channel::server(stream, server, by()).expect("a handshake");
                channel.send_pieces(&mut [IoSlice::new(&[1])]).expect("it is sent");
                let _ = channel.receive_some(&mut [0]);
            }
        });
        let mut times = Vec::with_capacity(MANY);
        for number in 0..=MANY {
            let tls = client();
            let stream = TcpStream::connect(address).expect("a connection");
            stream.set_nodelay(true).expect("an option");
            let begun = Instant::now();
            let mut channel = Channel::client(stream, &tls, Some(server.fingerprint()), by()).expect("a handshake");
            let took = begun.elapsed();
            // Session tickets arrive with this byte.
            channel.receive_exact(&mut [0]).expect("a byte");
            if number > 0 {
                assert_eq!(channel.is_resumed(), is_resumed);
                times.push(took.as_secs_f64() * 1e6);
            }
        }
        times
    })
}
