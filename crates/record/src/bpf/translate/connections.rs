//! Connections: their two ends, and TCP's state.
//!
//! A socket is recorded by its cookie; by its inode if it has none yet. Both lead to one object. The two ends of a
//! connection on one machine are two sockets, hence two objects of the same name.

use super::facts::Facts;
use super::links::Links;
use super::output::{NewSpan, Output};
use crate::bpf::raw::{Connection, Tcp, TcpMark, Wire};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use thalweg_trace::{CounterName, CounterOf, MarkKind, ObjectId, ObjectKind, Role, SpanKind, TrackId, TrackKind};

/// Maximum connections remembered.
const MOST_CONNECTIONS: usize = 100_000;

/// Maximum unanswered calls tracked.
const MOST_UNANSWERED: usize = 1_024;

/// Number of TCP counters.
const COUNTERS: usize = 12;

/// Which end was seen connecting: the caller's, the listener's.
const CALLED: u16 = 1;
const ACCEPTED: u16 = 2;

/// Maximum arrival times remembered per connection.
const REMEMBERED: usize = 32;

/// Mark of a failed connection.
const FAILED: u32 = 8;

/// Index of bytes in flight among them.
const IN_FLIGHT: usize = 4;

#[derive(Clone, Debug)]
struct ConnectionState {
    /// Key in `all`.
    name: String,
    end: End,
    /// The link its packets leave by, if known.
    link: String,
    object: Option<ObjectId>,
    /// The thread that used it last, which gets its marks.
    user: Option<TrackId>,
    own_track: Option<TrackId>,
    last: [Option<u64>; COUNTERS],
    /// Arrival times after a pause, latest last.
    came_ns: VecDeque<u64>,
    /// Up to when each direction's progress is recorded: acknowledged, arrived.
    wire_emitted_ns: [u64; 2],
}

/// Which end of its connection a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) enum End {
    Client,
    Server,
}

/// A connection that a recorded thread requested, and that no answer has been seen for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered {
    /// Its identifier in the programs.
    pub id: u64,
    /// The number of the caller's network namespace.
    pub namespace: u32,
    /// The caller's end.
    pub local: SocketAddr,
    /// The called address.
    pub remote: SocketAddr,
    /// Time of the request.
    pub asked_ns: u64,
}

/// The connections met.
#[derive(Debug)]
pub(crate) struct Connections {
    all: Vec<ConnectionState>,
    /// Connections made during the recording, until bytes go over them, by name.
    unanswered: HashMap<String, Unanswered>,
    by_id: HashMap<u64, usize>,
    by_inode: HashMap<u64, usize>,
    by_object: HashMap<ObjectId, usize>,
    /// Microseconds per kernel tick.
    tick_us: u64,
    /// The links they use.
    pub links: Links,
}

fn address(family: u16, bytes: &[u8; 16], port: u16) -> SocketAddr {
    let ip = if family == 2 {
        IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]))
    } else {
        let six = Ipv6Addr::from(*bytes);
        six.to_ipv4_mapped().map_or(IpAddr::V6(six), IpAddr::V4)
    };
    SocketAddr::new(ip, port)
}

/// Returns which end a socket is: as seen when the connection was made; otherwise the server's is the one whose port
/// is listened on, even in another local network namespace; otherwise the lower port's.
fn end_of(connection: &Connection, facts: &mut dyn Facts) -> End {
    match connection.end {
        CALLED => End::Client,
        ACCEPTED => End::Server,
        _ if facts.is_listened_on(connection.namespace, connection.local_port) => End::Server,
        _ if facts.is_listened_on(connection.namespace, connection.remote_port) => End::Client,
        _ if facts.is_listened_on_anywhere(connection.remote_port) => End::Client,
        _ if connection.local_port < connection.remote_port => End::Server,
        _ => End::Client,
    }
}

impl Connections {
    /// Creates an empty set. `tick_us`: length of the kernel's tick.
    pub(crate) fn new(tick_us: u64) -> Connections {
        Connections {
            all: Vec::new(),
            unanswered: HashMap::new(),
            by_id: HashMap::new(),
            by_inode: HashMap::new(),
            by_object: HashMap::new(),
            tick_us,
            links: Links::default(),
        }
    }

    /// Handles the kernel's report of a connection's ends.
    pub(crate) fn met(&mut self, connection: &Connection, facts: &mut dyn Facts) {
        let same = self.by_inode.get(&connection.inode).copied().filter(|_| connection.inode != 0);
        let end = end_of(connection, facts);
        let local = address(connection.family, &connection.local, connection.local_port);
        let remote = address(connection.family, &connection.remote, connection.remote_port);
        let name = if end == End::Client { format!("{local} > {remote}") } else { format!("{remote} > {local}") };
        if let Some(same) = same.filter(|at| self.all[*at].name == name) {
            self.by_id.insert(connection.connection, same);
            return;
        }
        if self.all.len() >= MOST_CONNECTIONS {
            self.all.clear();
            self.by_id.clear();
            self.by_inode.clear();
            self.by_object.clear();
        }
        if connection.end == CALLED && self.unanswered.len() < MOST_UNANSWERED {
            let (id, namespace, asked_ns) = (connection.connection, connection.namespace, connection.head.at_ns);
            self.unanswered.insert(name.clone(), Unanswered { id, namespace, local, remote, asked_ns });
        }
        let at = self.all.len();
        self.all.push(ConnectionState {
            name,
            end,
            link: self.links.name(connection.link, &connection.link_name),
            object: None,
            user: None,
            own_track: None,
            last: [None; COUNTERS],
            came_ns: VecDeque::new(),
            wire_emitted_ns: [0; 2],
        });
        self.by_id.insert(connection.connection, at);
        if connection.inode != 0 {
            self.by_inode.insert(connection.inode, at);
        }
    }

    fn at(&self, id: u64) -> Option<usize> {
        self.by_id.get(&id).copied().or_else(|| {
            let inode = id & !(1 << 63);
            (id != inode).then(|| self.by_inode.get(&inode).copied()).flatten()
        })
    }

    fn object_at(&mut self, at: usize, output: &mut Output) -> ObjectId {
        let known = &mut self.all[at];
        if let Some(object) = known.object {
            return object;
        }
        let object = output.object_id();
        let end = if known.end == End::Client { "client" } else { "server" };
        output.object(object, ObjectKind::Connection, &known.name, &[("end", end), ("link", &known.link)]);
        known.object = Some(object);
        self.by_object.insert(object, at);
        object
    }

    /// Returns the object of a known connection.
    pub(crate) fn object(&mut self, id: u64, output: &mut Output) -> Option<ObjectId> {
        let at = self.at(id)?;
        Some(self.object_at(at, output))
    }

    /// Notes that a thread uses it. Returns its object, and the stream position for the kernel's count: the kernel
    /// counts the caller's SYN as an acknowledged byte.
    pub(crate) fn used(&mut self, id: u64, by: TrackId, sent: bool, end_bytes: u64, output: &mut Output) -> Option<(ObjectId, u64)> {
        let at = self.at(id)?;
        self.all[at].user = Some(by);
        if !self.unanswered.is_empty() && (!sent || self.all[at].end == End::Server) {
            self.unanswered.remove(&self.all[at].name);
        }
        let counted = u64::from(sent && self.all[at].end == End::Client);
        Some((self.object_at(at, output), end_bytes.saturating_sub(counted)))
    }

    /// Whether there are calls whose answering process is still unknown.
    pub(crate) fn has_unanswered(&self) -> bool {
        !self.unanswered.is_empty()
    }

    /// Records that a connection had not been accepted when polled, on a thread of the listening process, which has
    /// been met now.
    pub(crate) fn not_accepted(&mut self, call: &Unanswered, by: TrackId, (polled_ns, at_ns): (u64, u64), output: &mut Output) {
        if let Some(object) = self.object(call.id, output) {
            let since_ns = i64::try_from(polled_ns.saturating_sub(call.asked_ns)).ok();
            output.mark(by, MarkKind::TcpNotAccepted, at_ns, Some(object), since_ns);
        }
    }

    /// Takes the calls from before this instant without any reply so far; each is returned once.
    pub(crate) fn take_unanswered(&mut self, before_ns: u64) -> Vec<Unanswered> {
        if self.unanswered.is_empty() {
            return Vec::new();
        }
        let mut taken = Vec::new();
        self.unanswered.retain(|_, call| {
            let is_young = call.asked_ns > before_ns;
            if !is_young {
                taken.push(call.clone());
            }
            is_young
        });
        taken.sort_by_key(|call| call.asked_ns);
        taken
    }

    /// Records TCP's state: only changed values become counters.
    pub(crate) fn tcp(&mut self, tcp: &Tcp, output: &mut Output) {
        let Some(at) = self.at(tcp.connection) else { return };
        let object = self.object_at(at, output);
        let segments = |n: u32| u64::from(n) * u64::from(tcp.mss);
        let jiffies = |n: u32| u64::from(n) * self.tick_us;
        let finite = |n: u32, none: u32| (n < none).then_some(n);
        let values = [
            (CounterName::TcpCwndBytes, Some(segments(tcp.cwnd))),
            (CounterName::TcpSsthreshBytes, finite(tcp.ssthresh, 0x7fff_ffff).map(segments)),
            (CounterName::TcpSrttUs, (tcp.srtt_us != 0).then(|| tcp.srtt_us.into())),
            (CounterName::TcpMinRttUs, finite(tcp.min_rtt_us, u32::MAX).map(u64::from)),
            (CounterName::TcpInFlightBytes, Some(tcp.in_flight_bytes.into())),
            (CounterName::TcpReceiveWindowBytes, Some(tcp.peer_window_bytes.into())),
            (CounterName::TcpSendBufferBytes, Some(tcp.send_buffer_bytes.into())),
            (CounterName::TcpUnsentBytes, Some(tcp.unsent_bytes.into())),
            (CounterName::TcpUnreadBytes, Some(tcp.unread_bytes.into())),
            (CounterName::TcpBusyUs, Some(jiffies(tcp.busy_jiffies))),
            (CounterName::TcpReceiveWindowLimitedUs, Some(jiffies(tcp.rwnd_limited_jiffies))),
            (CounterName::TcpSendBufferLimitedUs, Some(jiffies(tcp.sndbuf_limited_jiffies))),
        ];
        let known = &mut self.all[at];
        for (slot, (name, value)) in known.last.iter_mut().zip(values) {
            if value.is_some() && *slot != value {
                *slot = value;
                output.counter(CounterOf::Object(object), name, tcp.head.at_ns, value.unwrap_or(0));
            }
        }
    }

    /// Records progress of one direction: the counter has a value at both ends of each pause. Bytes in flight show
    /// whether, and until when, nothing was in flight.
    pub(crate) fn wire(&mut self, wire: &Wire, output: &mut Output) {
        let Some(at) = self.at(wire.connection) else { return };
        let object = CounterOf::Object(self.object_at(at, output));
        let name = if wire.direction == 0 { CounterName::TcpAckedBytes } else { CounterName::TcpReceivedBytes };
        let recorded = &mut self.all[at].wire_emitted_ns[usize::from(wire.direction != 0)];
        if wire.from_ns > *recorded {
            output.counter(object, name, wire.from_ns, wire.from_bytes);
        }
        *recorded = wire.head.at_ns;
        if wire.head.at_ns > wire.from_ns {
            output.counter(object, name, wire.head.at_ns, wire.bytes);
        }
        if wire.direction != 0 {
            let came = &mut self.all[at].came_ns;
            came.push_back(wire.head.at_ns);
            if came.len() > REMEMBERED {
                came.pop_front();
            }
        }
        if wire.left_ns != 0 {
            let in_flight = wire.bytes.saturating_sub(wire.from_bytes);
            if wire.from_ns != 0 {
                // (A value recorded at that instant precedes what arrived then.)
                output.counter(object, CounterName::TcpInFlightBytes, wire.from_ns + 1, 0);
            }
            output.counter(object, CounterName::TcpInFlightBytes, wire.left_ns, in_flight);
            self.all[at].last[IN_FLIGHT] = Some(in_flight);
        }
    }

    /// Returns the called address.
    pub(crate) fn server_of(&self, id: u64) -> Option<&str> {
        Some(self.all[self.at(id)?].name.split_once(" > ")?.1)
    }

    /// Returns when bytes last arrived at this end of a connection before an instant; `None` if unknown.
    pub(crate) fn came_ns(&self, object: ObjectId, by_ns: u64) -> Option<u64> {
        let at = *self.by_object.get(&object)?;
        self.all[at].came_ns.iter().rev().copied().find(|at_ns| *at_ns <= by_ns)
    }

    /// Marks a failed connection on the requesting thread, with the reason.
    fn failed(&mut self, at: usize, mark: &TcpMark, asker: Option<TrackId>, output: &mut Output) {
        let Some(track) = asker else { return };
        let mut span = NewSpan::new(track, SpanKind::NetConnect, mark.head.at_ns, mark.head.at_ns);
        span.object = Some(self.object_at(at, output));
        span.result = Some(-i64::from(mark.value));
        output.span(span);
    }

    /// Marks a retransmission or a closed window.
    pub(crate) fn mark(&mut self, mark: &TcpMark, asker: Option<TrackId>, output: &mut Output) {
        let Some(at) = self.at(mark.connection) else { return };
        let kind = match mark.what {
            1 => MarkKind::TcpRetransmit,
            2 => MarkKind::TcpTimeout,
            4 => MarkKind::TcpSynRetransmit,
            5 => MarkKind::TcpNagle,
            6 => MarkKind::TcpIdleRestart,
            7 => MarkKind::TcpAcceptQueue,
            FAILED => return self.failed(at, mark, asker, output),
            _ => MarkKind::TcpZeroWindow,
        };
        let object = self.object_at(at, output);
        let known = &mut self.all[at];
        let track = known.user.or(asker).or(known.own_track).unwrap_or_else(|| {
            let track = output.track_id();
            let role = if known.end == End::Client { Role::Client } else { Role::Server };
            output.track(track, TrackKind::Connection, role, None, &known.name);
            known.own_track = Some(track);
            track
        });
        let value = i64::from(mark.value) * if matches!(kind, MarkKind::TcpNagle | MarkKind::TcpSynRetransmit) { 1_000 } else { 1 };
        let value = (mark.value != 0).then_some(value);
        output.mark(track, kind, mark.head.at_ns, Some(object), value);
    }
}
