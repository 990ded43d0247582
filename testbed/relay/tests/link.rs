//! What the link promises, with real sockets at both ends: delay, loss, rate, stalls, and every byte as it was sent.
//!
//! Each test makes two network namespaces of its own and removes them again. Without root or `ip` they are skipped.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Two namespaces with a relay between them.
struct Link {
    names: [String; 2],
    relay: Option<Child>,
    stdout: BufReader<ChildStdout>,
}

impl Link {
    /// None: this machine cannot, and the reason has been printed.
    fn start(arguments: &[&str]) -> Option<Link> {
        // SAFETY: no arguments, no failure.
        if unsafe { libc::geteuid() } != 0 {
            println!("SKIPPED: network namespaces need root");
            return None;
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let names = ["a", "b"].map(|end| format!("relay-test-{}-{number}-{end}", std::process::id()));
        for name in &names {
            if !Command::new("ip").args(["netns", "add", name]).status().is_ok_and(|status| status.success()) {
                println!("SKIPPED: `ip netns add` does not work here");
                return None;
            }
        }
        let mut relay = Command::new(env!("CARGO_BIN_EXE_thalweg-relay"))
            .args(["--a", &format!("{}:10.9.0.1/24,fd09::1/64", names[0]), "--b", &format!("{}:10.9.0.2/24,fd09::2/64", names[1])])
            .args(["--json"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the relay starts");
        let stdout = BufReader::new(relay.stdout.take().expect("a pipe"));
        let mut link = Link { names, relay: Some(relay), stdout };
        assert_eq!(link.line(), "ready\n");
        Some(link)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("the relay's output is text");
        line
    }

    /// Runs `work` in a thread inside one end's namespace; sockets made there belong to it.
    fn at<T: Send>(&self, end: usize, work: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/run/netns/{}", self.names[end])).expect("the namespace is there");
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                // SAFETY: changes this thread's namespace only.
                assert_eq!(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
                work()
            });
            inside.join().expect("the thread inside does not panic")
        })
    }

    /// Ends the relay and reads its report.
    fn stop(mut self) -> Value {
        let mut relay = self.relay.take().expect("it runs");
        // SAFETY: the process is our child and not waited for yet.
        assert_eq!(unsafe { libc::kill(relay.id() as libc::pid_t, libc::SIGTERM) }, 0);
        let report = self.line();
        assert!(relay.wait().expect("it ends").success());
        serde_json::from_str(&report).unwrap_or_else(|why| panic!("{why}: {report}"))
    }

    /// Sends `bytes` from A to B over TCP and says how long they took from the first to the last, and the longest pause.
    fn stream(&self, bytes: usize) -> Streamed {
        let listener = self.at(1, || TcpListener::bind("10.9.0.2:0").expect("B has its address"));
        let to = listener.local_addr().expect("bound");
        std::thread::scope(|scope| {
            let sender = scope.spawn(move || {
                self.at(0, || {
                    let mut stream = TcpStream::connect(to).expect("B answers");
                    stream.write_all(&content(bytes)).expect("B takes everything");
                })
            });
            let (mut stream, _) = listener.accept().expect("A connects");
            let (mut received, mut chunk) = (Vec::with_capacity(bytes), vec![0; 1 << 16]);
            let (mut first, mut last, mut pause) = (None, Instant::now(), Duration::ZERO);
            loop {
                let read = stream.read(&mut chunk).expect("the connection lasts");
                if read == 0 {
                    break;
                }
                let now = Instant::now();
                if first.is_some() {
                    pause = pause.max(now - last);
                }
                (first, last) = (first.or(Some(now)), now);
                received.extend_from_slice(&chunk[..read]);
            }
            sender.join().expect("the sender does not panic");
            assert!(received == content(bytes), "the bytes are not those that were sent");
            Streamed { took: last - first.expect("something came"), pause }
        })
    }

    /// Least round-trip time of a few datagrams between two addresses.
    fn round_trip(&self, a: &str, b: &str) -> Duration {
        let [near, far] = [(0, a), (1, b)].map(|(end, address)| {
            let address: SocketAddr = format!("{address}:0").parse().expect("an address");
            self.at(end, || UdpSocket::bind(address).expect("the end has its address"))
        });
        let to = far.local_addr().expect("bound");
        let times = (0..15u8).map(|number| {
            let (begun, mut answer) = (Instant::now(), [0]);
            near.send_to(&[number], to).expect("sent");
            let (_, from) = far.recv_from(&mut answer).expect("received");
            far.send_to(&answer, from).expect("sent back");
            near.recv(&mut answer).expect("received back");
            assert_eq!(answer, [number]);
            begun.elapsed()
        });
        times.min().expect("there are some")
    }
}

struct Streamed {
    took: Duration,
    pause: Duration,
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(relay) = &mut self.relay {
            let _ = relay.kill();
            let _ = relay.wait();
        }
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "delete", name]).status();
        }
    }
}

/// Bytes of which no two stretches are alike.
fn content(bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|index| (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

#[test]
fn a_round_trip_takes_both_delays() {
    for (a, b) in [("10.9.0.1", "10.9.0.2"), ("[fd09::1]", "[fd09::2]")] {
        let mut times = Vec::new();
        for delay in ["5ms", "15ms,25ms"] {
            let Some(link) = Link::start(&["--delay", delay]) else { return };
            times.push(link.round_trip(a, b).as_secs_f64());
        }
        let ratio = times[1] / times[0];
        assert!((3.5..4.2).contains(&ratio), "40 ms against 10 ms round trip: {times:?}, {ratio}");
        assert!(times[0] >= 0.010, "a packet came before it could: {times:?}");
    }
}

#[test]
fn what_is_lost_is_what_was_asked_for_and_counted() {
    let Some(link) = Link::start(&["--loss", "5%,0", "--seed", "11", "--no-offload"]) else { return };
    let far = link.at(1, || UdpSocket::bind("10.9.0.2:0").expect("bound"));
    let near = link.at(0, || UdpSocket::bind("10.9.0.1:0").expect("bound"));
    let room: libc::c_int = 32 << 20;
    // SAFETY: the kernel reads an integer that outlives the call.
    let set = unsafe {
        libc::setsockopt(far.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, (&raw const room).cast(), size_of_val(&room) as u32)
    };
    assert_eq!(set, 0, "room for every datagram");
    far.set_read_timeout(Some(Duration::from_secs(1))).expect("settable");
    let (to, sent) = (far.local_addr().expect("bound"), 4000);
    for number in 0..sent {
        near.send_to(&u64::to_le_bytes(number), to).expect("sent");
    }
    let received = std::iter::from_fn(|| far.recv(&mut [0; 8]).ok()).count() as u64;
    let report = link.stop();
    let (packets, lost) = (report["a>b"]["packets"].as_u64().expect("counted"), report["a>b"]["lost"].as_u64().expect("counted"));
    assert_eq!(packets, sent, "nobody else sends: {report}");
    assert!((0.04..0.06).contains(&(lost as f64 / packets as f64)), "{report}");
    assert_eq!(received, packets - lost, "{report}");
}

#[test]
fn every_byte_arrives_as_it_was_sent_through_loss_jitter_and_a_short_queue() {
    for more in [&[][..], &["--no-offload"], &["--mtu", "9000"], &["--queue", "64KiB", "--rate", "500Mbit"]] {
        let arguments = [&["--delay", "2ms", "--jitter", "1ms", "--loss", "0.5%"][..], more].concat();
        let Some(link) = Link::start(&arguments) else { return };
        link.stream(3 << 20);
        let report = link.stop();
        assert!(report["a>b"]["lost"].as_u64() > Some(0), "{more:?}: {report}");
        assert_eq!(report["a>b"]["relay_drops"], 0, "{more:?}: {report}");
        let reads = report["a>b"]["reads"].as_u64().expect("counted");
        assert_eq!(reads == report["a>b"]["packets"], more == ["--no-offload"], "{more:?}: {report}");
    }
}

#[test]
fn a_stream_is_as_fast_as_the_rate_and_as_twice_the_rate() {
    for (rate, bits_per_s) in [("50Mbit", 50e6), ("100Mbit", 100e6)] {
        let Some(link) = Link::start(&["--rate", rate, "--delay", "1ms"]) else { return };
        let bytes = 8 << 20;
        let share = bytes as f64 * 8.0 / link.stream(bytes).took.as_secs_f64() / bits_per_s;
        // Headers take 3.5 % of what is on the wire; a receiver that comes late finds its first bytes waiting.
        assert!((0.75..1.10).contains(&share), "{share} of {rate}");
    }
}

#[test]
fn a_stall_is_a_pause_of_its_length() {
    let Some(link) = Link::start(&["--rate", "100Mbit", "--stall", "900ms+500ms"]) else { return };
    // So long that the stall lies within it, also where it begins late.
    let with = link.stream(16 << 20);
    drop(link);
    let Some(link) = Link::start(&["--rate", "100Mbit"]) else { return };
    let without = link.stream(4 << 20);
    // (One who receives and is not let run pauses as well, in either stream.)
    let (pause, usual) = (with.pause.as_secs_f64(), without.pause.as_secs_f64());
    assert!(pause > 0.4 && pause - usual < 2.0, "longest pause {:?} with a stall of 500 ms, {:?} without", with.pause, without.pause);
}

#[test]
fn one_namespace_for_both_ends_and_missing_ones_are_errors_that_say_so() {
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_thalweg-relay")).args(arguments).output().expect("it starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = run(&["--a", "x:10.0.0.1/24", "--b", "x:10.0.0.2/24"]);
    assert!(code == Some(1) && text.contains("same network namespace"), "{text}");
    let (code, text) = run(&["--a", "nowhere-a:10.0.0.1/24", "--b", "nowhere-b:10.0.0.2/24"]);
    assert!(code == Some(1) && text.contains("nowhere-a"), "{text}");
    let (code, text) = run(&["--a", "x:10.0.0.1/24"]);
    assert!(code == Some(2) && text.contains("--b"), "{text}");
    let (code, text) = run(&["--ceiling", "--for", "10"]);
    assert!(code == Some(2) && text.contains("10ms"), "{text}");
}
