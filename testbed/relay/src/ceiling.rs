//! What the relay itself can carry: a TCP stream through a link without delay, rate or loss.
//!
//! A result that is limited by the relay is not a result, so every experiment names a rate well below this ceiling. The stream
//! runs between two namespaces made for it, sender and receiver as threads of this process on the same processors as the relay:
//! as an experiment on one machine would.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::device::{Device, Namespace};
use crate::line::{Character, Limit};
use crate::link::Link;

const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 213, 0, 1));
const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 213, 0, 2));
const CHUNK_BYTES: usize = 256 << 10;

/// What a link carried in one measurement.
pub struct Ceiling {
    offload: bool,
    bits_per_s: f64,
    segments_per_s: f64,
    reads_per_s: f64,
    relay_drops: u64,
}

impl Ceiling {
    /// Measures one stream of the given length.
    pub fn measure(mtu: u32, offload: bool, realtime: bool, lasts: Duration) -> Result<Ceiling, Box<dyn std::error::Error>> {
        let character =
            Character { delay_ns: 0, jitter_ns: 0, rate_bps: None, loss: 0.0, queue: Limit::Packets(u64::MAX), stalls_ns: Vec::new() };
        let (namespace_a, namespace_b) = (Namespace::unnamed()?, Namespace::unnamed()?);
        let (inside_a, inside_b) = (namespace_a.again()?, namespace_b.again()?);
        let devices = [
            Device::create_in(namespace_a, &[(A, 24)], "ceiling0", mtu, offload)?,
            Device::create_in(namespace_b, &[(B, 24)], "ceiling0", mtu, offload)?,
        ];
        // Sockets belong to the namespace they were made in, whoever uses them.
        let listener = inside_b.run(|| Ok(TcpListener::bind(SocketAddr::new(B, 0))))??;
        let to = listener.local_addr()?;
        let link = Link::start(devices, [character.clone(), character], 1, realtime)?;
        let (received, report) = std::thread::scope(|scope| -> Result<_, Box<dyn std::error::Error>> {
            let receiver = scope.spawn(move || receive(&listener));
            let sender = scope.spawn(move || inside_a.run(|| Ok(send(to, lasts))));
            sender.join().map_err(|_| "the sender panicked")???;
            let received = receiver.join().map_err(|_| "the receiver panicked")??;
            Ok((received, link.stop()?))
        })?;
        let (bytes, took) = received;
        let seconds = took.as_secs_f64();
        let counts = &report.seen[0].counts;
        Ok(Ceiling {
            offload,
            bits_per_s: bytes as f64 * 8.0 / seconds,
            segments_per_s: counts.segments as f64 / seconds,
            reads_per_s: counts.packets as f64 / seconds,
            relay_drops: report.unread.iter().sum(),
        })
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        json!({
            "offload": self.offload, "bits_per_s": self.bits_per_s.round(), "packets_per_s": self.segments_per_s.round(),
            "reads_per_s": self.reads_per_s.round(), "relay_drops": self.relay_drops,
        })
    }

    /// For a person.
    pub fn text(&self) -> String {
        format!(
            "ceiling {} offload: {:.2} Gbit/s, {:.0} packets/s on the wire in {:.0} reads/s, {} dropped by the relay itself",
            if self.offload { "with" } else { "without" },
            self.bits_per_s / 1e9,
            self.segments_per_s,
            self.reads_per_s,
            self.relay_drops
        )
    }
}

fn send(to: SocketAddr, lasts: Duration) -> io::Result<()> {
    let mut stream = TcpStream::connect(to)?;
    let chunk = vec![0x5a; CHUNK_BYTES];
    let begun = Instant::now();
    while begun.elapsed() < lasts {
        stream.write_all(&chunk)?;
    }
    Ok(())
}

/// Bytes that came over one connection, and how long they took from its acceptance to its end.
fn receive(listener: &TcpListener) -> io::Result<(u64, Duration)> {
    let (mut stream, _) = listener.accept()?;
    let begun = Instant::now();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut bytes = 0;
    loop {
        match stream.read(&mut chunk)? {
            0 => return Ok((bytes, begun.elapsed())),
            read => bytes += read as u64,
        }
    }
}
