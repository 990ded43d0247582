//! Connections: who is at the two ends, and what TCP says.
//!
//! A socket is recorded by its cookie; one that has none yet, by its inode. Both names lead to one object. The two
//! ends of a connection on one machine are two sockets, hence two objects with one name.

use super::facts::Facts;
use super::links::Links;
use super::output::{NewSpan, Output};
use crate::bpf::raw::{Connection, Tcp, TcpMark, Wire};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use thalweg_trace::{CounterName, CounterOf, MarkKind, ObjectId, ObjectKind, Role, SpanKind, TrackId, TrackKind};

/// Connections that are remembered.
const MOST_CONNECTIONS: usize = 100_000;

/// Calls that are waited for together.
const MOST_UNANSWERED: usize = 1_024;

/// How many counters TCP has.
const COUNTERS: usize = 12;

/// Which end was seen to come about: the caller's, the listener's.
const CALLED: u16 = 1;
const ACCEPTED: u16 = 2;

/// How many instants at which bytes came are remembered of each.
const REMEMBERED: usize = 32;

/// The mark of a connection that did not come about.
const FAILED: u32 = 8;

/// Where bytes in flight are among them.
const IN_FLIGHT: usize = 4;

#[derive(Clone, Debug)]
struct Known {
    /// Where in `all`.
    name: String,
    end: End,
    /// What its packets leave by, where that is known.
    link: String,
    object: Option<ObjectId>,
    /// The thread that used it last, where marks are put.
    user: Option<TrackId>,
    own_track: Option<TrackId>,
    last: [Option<u64>; COUNTERS],
    /// When bytes last came after a pause, latest last.
    came_ns: VecDeque<u64>,
    /// Until when it is recorded how far its directions came: acknowledged, arrived.
    wire_emitted_ns: [u64; 2],
}

/// Which end of its connection a socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) enum End {
    Client,
    Server,
}

/// A connection that a recorded thread asked for, as far as is known without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered {
    /// What the programs call it.
    pub id: u64,
    /// The number of the caller's network namespace.
    pub namespace: u32,
    /// The caller's end.
    pub local: SocketAddr,
    /// Who was called.
    pub remote: SocketAddr,
    /// When.
    pub asked_ns: u64,
}

/// The connections that were met.
#[derive(Debug)]
pub(crate) struct Connections {
    all: Vec<Known>,
    /// By name: those that were made while it was recorded, until bytes went over them.
    unanswered: HashMap<String, Unanswered>,
    by_id: HashMap<u64, usize>,
    by_inode: HashMap<u64, usize>,
    by_object: HashMap<ObjectId, usize>,
    /// Microseconds of the kernel's tick.
    tick_us: u64,
    /// What they go over.
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

/// Which end a socket is: as seen when the connection was made; else whose port is listened on, also in another network of this machine;
/// else the lower port serves.
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
    /// None yet. `tick_us`: how long the kernel's tick is.
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

    /// The kernel said who is at the ends.
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
        self.all.push(Known {
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

    /// The object of a connection that was met.
    pub(crate) fn object(&mut self, id: u64, output: &mut Output) -> Option<ObjectId> {
        let at = self.at(id)?;
        Some(self.object_at(at, output))
    }

    /// A thread uses it. Its object, and the position in its stream that the kernel's count means: the kernel counts the
    /// caller's first segment, which has no data, as a byte that was acknowledged.
    pub(crate) fn used(&mut self, id: u64, by: TrackId, sent: bool, end_bytes: u64, output: &mut Output) -> Option<(ObjectId, u64)> {
        let at = self.at(id)?;
        self.all[at].user = Some(by);
        if !self.unanswered.is_empty() && (!sent || self.all[at].end == End::Server) {
            self.unanswered.remove(&self.all[at].name);
        }
        let counted = u64::from(sent && self.all[at].end == End::Client);
        Some((self.object_at(at, output), end_bytes.saturating_sub(counted)))
    }

    /// Whether there are calls of which nobody knows yet who is to answer them.
    pub(crate) fn has_unanswered(&self) -> bool {
        !self.unanswered.is_empty()
    }

    /// Nobody had accepted a connection when that was looked at, and this thread's process, which has been met now, is who listens there.
    pub(crate) fn not_accepted(&mut self, call: &Unanswered, by: TrackId, (polled_ns, at_ns): (u64, u64), output: &mut Output) {
        if let Some(object) = self.object(call.id, output) {
            let since_ns = i64::try_from(polled_ns.saturating_sub(call.asked_ns)).ok();
            output.mark(by, MarkKind::TcpNotAccepted, at_ns, Some(object), since_ns);
        }
    }

    /// Calls from before this instant over which nothing came back so far; each is given out once.
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

    /// What TCP says. Only values that changed become counters.
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

    /// How far one direction has come: the counter has a value at both ends of each pause. That nothing was under way, and until
    /// when, is bytes in flight.
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
                // (What was recorded at that instant is from before what came then.)
                output.counter(object, CounterName::TcpInFlightBytes, wire.from_ns + 1, 0);
            }
            output.counter(object, CounterName::TcpInFlightBytes, wire.left_ns, in_flight);
            self.all[at].last[IN_FLIGHT] = Some(in_flight);
        }
    }

    /// The address of who was called.
    pub(crate) fn server_of(&self, id: u64) -> Option<&str> {
        Some(self.all[self.at(id)?].name.split_once(" > ")?.1)
    }

    /// When bytes last came to this end of a connection, by an instant; `None`: not known.
    pub(crate) fn came_ns(&self, object: ObjectId, by_ns: u64) -> Option<u64> {
        let at = *self.by_object.get(&object)?;
        self.all[at].came_ns.iter().rev().copied().find(|at_ns| *at_ns <= by_ns)
    }

    /// No connection came about: for who asked for it, an instant with the reason.
    fn failed(&mut self, at: usize, mark: &TcpMark, asker: Option<TrackId>, output: &mut Output) {
        let Some(track) = asker else { return };
        let mut span = NewSpan::new(track, SpanKind::NetConnect, mark.head.at_ns, mark.head.at_ns);
        span.object = Some(self.object_at(at, output));
        span.result = Some(-i64::from(mark.value));
        output.span(span);
    }

    /// Something was sent again, or a window closed.
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
