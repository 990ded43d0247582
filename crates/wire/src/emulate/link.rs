//! A server's emulated link, and a connection's share of it.
//!
//! **In:** a message arrives once the link has carried it, behind earlier messages, plus half a round trip. The link starts on a
//! message when its head reaches the machine; bytes already waiting when the connection's thread looks are taken to follow the
//! previous ones without a gap, because whatever filled the socket also filled the link. **Out:** a reply is queued as into a
//! socket's buffer, and a thread of the connection sends it when it would have arrived, so that the server's disk and link
//! overlap as real ones do.

use super::Emulation;
use super::pacer::{Pacer, sleep_until};
use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::thread::JoinHandle;
use thalweg_base::sync::{Condvar, Mutex};
use thalweg_trace::{Counter, CounterName, CounterOf, Event, ObjectId, Time, TraceHandle};

/// Bytes queued for sending before the connection's thread blocks, like a socket's send buffer.
const OUTWARD_BYTES: usize = 4 << 20;

/// One server's link.
#[derive(Debug)]
pub(crate) struct Link {
    text: String,
    rtt_ns: u64,
    inward: Mutex<Pacer>,
    outward: Mutex<Pacer>,
}

impl Link {
    /// Returns an idle link; `None`: the machine's own.
    pub(crate) fn new(emulation: &Emulation) -> Option<Link> {
        let text = emulation.link()?;
        let pacer = || Mutex::new(Pacer::new(emulation.link_bytes_per_s));
        Some(Link { text, rtt_ns: emulation.rtt_ns, inward: pacer(), outward: pacer() })
    }

    /// Describes the link.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// A message that is arriving.
struct Arriving {
    /// When the link carries the message, ns.
    on_link: Range<u64>,
    bytes: u64,
    /// Whether the recording has the message already.
    recorded: bool,
}

/// One connection's share of its server's link.
pub(crate) struct Line {
    link: Arc<Link>,
    socket: Arc<TcpStream>,
    name: String,
    /// Bytes of messages since the connection began.
    received: u64,
    sent: u64,
    arriving: Option<Arriving>,
    outward: Option<Outward>,
}

impl Line {
    /// Makes the share of an unencrypted connection called `name`.
    pub(crate) fn new(link: &Arc<Link>, socket: &Arc<TcpStream>, name: String) -> Line {
        let (link, socket) = (Arc::clone(link), Arc::clone(socket));
        Line { link, socket, name, received: 0, sent: 0, arriving: None, outward: None }
    }

    /// Describes the link.
    pub(crate) fn text(&self) -> &str {
        self.link.text()
    }

    /// Notes that a message's head arrived, with `payload_bytes` to follow, and sleeps until the head would have arrived.
    /// `was_waiting`: the head was already waiting when the thread looked.
    pub(crate) fn head_arrived(&mut self, head_bytes: u64, payload_bytes: u64, was_waiting: bool) {
        let asked_ns = if was_waiting { 0 } else { Time::now().ns().max(0) as u64 };
        let bytes = head_bytes + payload_bytes;
        let (on_link, head_ns) = {
            let mut inward = self.link.inward.lock();
            (inward.take(asked_ns, 0, bytes), inward.takes_ns(head_bytes))
        };
        sleep_until(on_link.start + head_ns + self.link.rtt_ns / 2);
        self.arriving = Some(Arriving { on_link, bytes, recorded: false });
    }

    /// Sleeps until all but `left_bytes` of the message's payload would have arrived.
    pub(crate) fn payload_arrived(&self, left_bytes: u64) {
        let Some(arriving) = &self.arriving else { return };
        let left_ns = self.link.inward.lock().takes_ns(left_bytes);
        sleep_until(arriving.on_link.end.saturating_sub(left_ns) + self.link.rtt_ns / 2);
    }

    /// Records the bytes of the arriving message on the wire.
    pub(crate) fn record_arriving(&mut self, recording: Option<(&TraceHandle, ObjectId)>) {
        let Some(arriving) = self.arriving.as_mut().filter(|arriving| !arriving.recorded) else { return };
        arriving.recorded = true;
        let before = self.received;
        self.received += arriving.bytes;
        if let Some(recording) = recording {
            let way_ns = self.link.rtt_ns / 2;
            points(recording, CounterName::TcpReceivedBytes, &arriving.on_link, way_ns, before..self.received);
        }
    }

    /// Records the connection's round-trip time.
    pub(crate) fn record_round_trip(&self, (trace, object): (&TraceHandle, ObjectId)) {
        round_trip(trace, object, self.link.rtt_ns);
    }

    /// Queues a message to arrive when the link has carried it; blocks while more than [`OUTWARD_BYTES`] are queued.
    ///
    /// # Errors
    /// The connection's error on an earlier message, or failure to start a thread.
    pub(crate) fn send(&mut self, pieces: [&[u8]; 2], recording: Option<(&TraceHandle, ObjectId)>) -> io::Result<()> {
        let message = pieces.concat();
        let now_ns = Time::now().ns().max(0) as u64;
        let on_link = self.link.outward.lock().take(now_ns, 0, message.len() as u64);
        let before = self.sent;
        self.sent += message.len() as u64;
        if let Some(recording) = recording {
            points(recording, CounterName::TcpAckedBytes, &on_link, self.link.rtt_ns, before..self.sent);
        }
        if self.outward.is_none() {
            self.outward = Some(Outward::start(&self.name, &self.socket)?);
        }
        let outward = self.outward.as_ref().expect("just started");
        outward.send(on_link.end + self.link.rtt_ns / 2, message)
    }

    /// Waits until every queued message is sent.
    pub(crate) fn flush(&mut self) {
        self.outward = None;
    }
}

/// Records a counter's value at the start and at the end of a message's time on the link.
fn points((trace, object): (&TraceHandle, ObjectId), name: CounterName, on_link: &Range<u64>, later_ns: u64, value: Range<u64>) {
    let point = |at_ns: u64, value: u64| {
        let at = Time::from_monotonic_ns((at_ns + later_ns) as i64);
        Event::Counter(Counter { of: CounterOf::Object(object), name, at, value: value as i64 })
    };
    trace.events(&mut vec![point(on_link.start, value.start), point(on_link.end, value.end)]);
}

/// Records the round-trip time of an emulated connection, for the end with this object.
pub(crate) fn round_trip(trace: &TraceHandle, object: ObjectId, rtt_ns: u64) {
    if rtt_ns > 0 {
        let value = (rtt_ns / 1000).max(1) as i64;
        trace.event(Event::Counter(Counter { of: CounterOf::Object(object), name: CounterName::TcpMinRttUs, at: Time::now(), value }));
    }
}

/// A connection's queue of outgoing messages, and the thread that sends each at its time. Dropping it sends the rest first.
struct Outward {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// Each message with its arrival time.
    messages: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
    closed: bool,
    error: Option<io::ErrorKind>,
}

impl Outward {
    fn start(name: &str, socket: &Arc<TcpStream>) -> io::Result<Outward> {
        let queue = Arc::<Queue>::default();
        let (ours, socket) = (Arc::clone(&queue), Arc::clone(socket));
        let thread = std::thread::Builder::new().name(format!("{name} link")).spawn(move || ours.send_all(&socket))?;
        Ok(Outward { queue, thread: Some(thread) })
    }

    fn send(&self, at_ns: u64, message: Vec<u8>) -> io::Result<()> {
        let mut waiting = self.queue.waiting.lock();
        while waiting.bytes > OUTWARD_BYTES && waiting.error.is_none() {
            self.queue.changed.wait(&mut waiting);
        }
        if let Some(kind) = waiting.error {
            return Err(kind.into());
        }
        waiting.bytes += message.len();
        waiting.messages.push_back((at_ns, message));
        self.queue.changed.notify_all();
        Ok(())
    }
}

impl Queue {
    fn send_all(&self, socket: &TcpStream) {
        let mut waiting = self.waiting.lock();
        loop {
            let Some((at_ns, message)) = waiting.messages.pop_front() else {
                if waiting.closed {
                    return;
                }
                self.changed.wait(&mut waiting);
                continue;
            };
            drop(waiting);
            sleep_until(at_ns);
            let sent = (&*socket).write_all(&message);
            waiting = self.waiting.lock();
            waiting.bytes -= message.len();
            if let Err(error) = sent {
                waiting.error = Some(error.kind());
                waiting.messages.clear();
                // The connection's thread notices when it waits for the next request. (On an error here it knows already.)
                let _ = socket.shutdown(Shutdown::Both);
            }
            self.changed.notify_all();
        }
    }
}

impl Drop for Outward {
    fn drop(&mut self) {
        self.queue.waiting.lock().closed = true;
        self.queue.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // The thread does not panic; if it did, nothing would be left to send.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    fn line(text: &str) -> (Line, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = Arc::new(listener.accept().unwrap().0);
        let link = Arc::new(Link::new(&Emulation::parse(text).unwrap()).unwrap());
        (Line::new(&link, &socket, "a > b".into()), client)
    }

    fn now_ns() -> u64 {
        Time::now().ns() as u64
    }

    #[test]
    fn a_message_in_takes_its_bytes_and_half_a_round_trip() {
        let (mut line, _client) = line("link=8Mb/s,rtt=2ms");
        let begun = now_ns();
        line.head_arrived(100, 1000, false);
        assert!(now_ns() - begun >= 1_100_000, "the head");
        line.payload_arrived(0);
        assert!(now_ns() - begun >= 2_100_000);
        // Bytes that were waiting follow directly: the link was not idle.
        let first = line.arriving.take().unwrap();
        line.head_arrived(100, 0, true);
        let second = line.arriving.take().unwrap();
        assert_eq!(second.on_link, first.on_link.end..first.on_link.end + 100_000);
    }

    #[test]
    fn messages_out_arrive_in_their_order_and_not_before_their_time() {
        let (mut line, mut client) = line("link=80Mb/s,rtt=2ms");
        let begun = now_ns();
        for byte in 0..3_u8 {
            line.send([&[byte; 10], &[byte; 9_990]], None).unwrap();
        }
        let mut bytes = vec![0; 30_000];
        client.read_exact(&mut bytes[..10_000]).unwrap();
        assert!(now_ns() - begun >= 2_000_000);
        client.read_exact(&mut bytes[10_000..]).unwrap();
        assert!(now_ns() - begun >= 4_000_000);
        assert!(bytes.iter().enumerate().all(|(i, byte)| *byte == (i / 10_000) as u8));
        line.send([b"last", b""], None).unwrap();
        line.flush();
        client.read_exact(&mut bytes[..4]).unwrap();
        assert_eq!(&bytes[..4], b"last", "what was handed over is sent before the line ends");
    }

    #[test]
    fn a_connection_that_has_ended_is_known_at_the_next_message() {
        let (mut line, client) = line("rtt=0.1ms");
        drop(client);
        let failed = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            line.send([b"to nobody", b""], None).is_err()
        });
        assert!(failed);
    }
}
