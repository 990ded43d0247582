//! Words for the members of the closed sets: classes of spans, clauses for causes and marks, names and units of counters.

use crate::picture::palette::Mostly;
use thalweg_explain::Cause;
use thalweg_trace::{CounterName, MarkKind, SpanKind};

/// Returns the class of a span, by which the page colours and filters it; `mostly`: the state of its thread, `None` if stopped.
pub(super) fn class_of(kind: SpanKind, mostly: Option<Mostly>) -> &'static str {
    use SpanKind as K;
    let Some(mostly) = mostly else { return "stopped" };
    match kind {
        K::AppRequest | K::RpcCall | K::RpcServe => "other",
        _ if mostly == Mostly::Runnable => "runqueue",
        K::FileRead | K::DiskRead => "read",
        K::FileWrite | K::DiskWrite | K::FileSync | K::DiskFlush => "write",
        K::NetReceive if mostly == Mostly::Blocked => "wait.network",
        K::NetSend | K::NetConnect => "send",
        K::NetReceive => "receive",
        K::CpuRun | K::AppChecksum | K::AppOther => "compute",
        K::RpcQueue | K::WaitRunqueue => "runqueue",
        K::WaitDisk => "wait.disk",
        K::WaitNetwork => "wait.network",
        K::WaitLock => "wait.lock",
        K::WaitTimer => "wait.timer",
        K::WaitMemory => "wait.memory",
        K::WaitOther => "wait.other",
        K::FileOpen | K::FileStat | K::FileList | K::FileClose | K::FileOther => "metadata",
        K::FileTruncate | K::FileRemove | K::FileRename | K::FileCreate => "metadata",
        K::MpiIo | K::MpiMessage | K::MpiCollective | K::MpiWait | K::MpiOther => "mpi",
        K::MpiSend | K::MpiReceive | K::MpiRead | K::MpiWrite => "mpi",
    }
}

/// Returns a clause that says what happened while time was charged to the cause.
pub(super) fn cause(cause: Cause, has_server: bool) -> String {
    use Cause as C;
    let did = match cause {
        C::ClientRead | C::ServerRead => "waited for a read",
        C::ClientWrite | C::ServerWrite => "waited for a write",
        C::ClientSync | C::ServerSync => "waited for stable storage",
        C::ClientMetadata | C::ServerMetadata => "worked on metadata",
        C::ClientMemory | C::ServerMemory => "waited for memory",
        C::ClientCpu | C::ServerCpu => "computed",
        C::ClientRunqueue | C::ServerRunqueue => "waited for a processor",
        C::ClientLock | C::ServerLock => "waited for a lock",
        C::ClientThink | C::ServerThink => "slept or was stopped",
        C::ServerUnknown => "was not recorded",
        C::NetworkLoss => return "packets were lost".into(),
        C::NetworkSndbuf => return "the send buffer was full".into(),
        C::NetworkRwnd => return "the receive window was full".into(),
        C::NetworkCwnd => return "the congestion window was full".into(),
        C::NetworkLatency => return "messages were in transit".into(),
        C::NetworkBandwidth => return "the network carried data".into(),
        C::Recorder => return "the recorder worked".into(),
        C::Unknown => return "not recorded".into(),
    };
    let who = match (cause.name().starts_with("server."), has_server) {
        (true, _) => "the server",
        (false, true) => "the client",
        (false, false) => "the program",
    };
    format!("{who} {did}")
}

/// Returns a clause for a mark.
pub(super) fn mark(kind: MarkKind) -> &'static str {
    use MarkKind as M;
    match kind {
        M::TcpRetransmit => "TCP sent a segment again",
        M::TcpTimeout => "TCP's retransmission timer expired",
        M::TcpZeroWindow => "the peer's receive window closed",
        M::RpcRetransmit => "an RPC was sent again",
        M::RpcTimeout => "an RPC's timer expired",
        M::Lost => "events were lost before this instant",
        M::ThreadStart => "the thread was created",
        M::ThreadExit => "the thread ended",
        M::ThreadSeen => "recording of the thread began",
        M::ProcessCalled => "the process could be contacted",
        M::TcpSynRetransmit => "a connection request was sent again",
        M::TcpNagle => "a segment that Nagle's algorithm had delayed was sent",
        M::TcpIdleRestart => "TCP sent again after an idle period, with a smaller congestion window",
        M::TcpAcceptQueue => "the connection was accepted after its listener's queue had been full",
        M::TcpNotAccepted => "a connection request had waited without being accepted",
        M::TuneStep => "a tuner tried a value",
        M::NameAsked => "the thread looked up a name",
        M::NameAnswered => "the thread received the answer to a lookup",
        M::Signal => "the thread was sent a signal",
        M::TaskLockAwaited => "a goroutine began to wait for a mutex",
        M::TaskLockAwaitedAgain => "a woken goroutine found the mutex taken",
        M::TaskLockHandedOn => "a goroutine released a mutex and woke a waiter",
    }
}

/// What a counter counts: its unit, a phrase for its curve, and whether its values accumulate, so that their increase is drawn.
pub(super) struct Counted {
    pub(super) unit: &'static str,
    pub(super) label: &'static str,
    pub(super) accumulates: bool,
}

/// Returns what a counter counts.
pub(super) fn counter(name: CounterName) -> Counted {
    let (label, unit) = described(name);
    let accumulates = unit.ends_with('+');
    Counted { unit: unit.trim_end_matches('+'), label, accumulates }
}

/// Returns phrase and unit; a unit with `+` accumulates.
fn described(name: CounterName) -> (&'static str, &'static str) {
    use CounterName as C;
    match name {
        C::TcpCwndBytes => ("congestion window", "bytes"),
        C::TcpSsthreshBytes => ("slow-start threshold", "bytes"),
        C::TcpSrttUs => ("round trip, smoothed", "us"),
        C::TcpInFlightBytes => ("in flight", "bytes"),
        C::TcpReceiveWindowBytes => ("receive window", "bytes"),
        C::TcpSendBufferBytes => ("send buffer", "bytes"),
        C::TcpUnsentBytes => ("written and not sent", "bytes"),
        C::TcpUnreadBytes => ("arrived and not read", "bytes"),
        C::TcpMinRttUs => ("round trip, minimum", "us"),
        C::TcpBusyUs => ("data outstanding", "us+"),
        C::TcpReceiveWindowLimitedUs => ("limited by the receive window", "us+"),
        C::TcpSendBufferLimitedUs => ("limited by the send buffer", "us+"),
        C::TcpReceiveRttUs => ("round trip of arriving data", "us"),
        C::TcpOutOfOrder => ("arrived out of order", "segments+"),
        C::TcpOfferedWindowBytes => ("receive window offered", "bytes"),
        C::TcpQueuedBytes => ("written and not acknowledged", "bytes"),
        C::TcpAcceptQueued => ("not accepted", "connections"),
        C::RpcPending => ("pending calls", "calls"),
        C::RpcWindow => ("maximum of pending calls", "calls"),
        C::CpuRunNs => ("running", "ns+"),
        C::CpuRunqueueNs => ("waiting for a processor", "ns+"),
        C::CpuThrottledNs => ("throttled by a quota", "ns+"),
        C::CpuSoftirqNs => ("software interrupts", "ns+"),
        C::IoReadBytes => ("read", "bytes+"),
        C::IoWriteBytes => ("written", "bytes+"),
        C::IoReadCalls => ("read calls", "calls+"),
        C::IoWriteCalls => ("write calls", "calls+"),
        C::MemoryDirtyBytes => ("dirty memory", "bytes"),
        C::AheadHitBytes => ("read ahead and requested", "bytes+"),
        C::AheadMissBytes => ("requested and not read ahead", "bytes+"),
        C::AheadWastedBytes => ("read ahead in vain", "bytes+"),
        C::TcpAckedBytes => ("acknowledged by the peer", "bytes+"),
        C::TcpReceivedBytes => ("arrived", "bytes+"),
        C::CpuIdleNs => ("idle", "ns+"),
        C::CpuHardirqNs => ("hardware interrupts", "ns+"),
        C::CpuStealNs => ("taken by the hypervisor", "ns+"),
        C::FileOpens => ("files opened", "files+"),
        C::FileCreates => ("files created", "files+"),
        C::FileStats => ("calls for attributes", "calls+"),
        C::FileRemoves => ("names removed", "names+"),
        C::FileRenames => ("names changed", "names+"),
        C::FileListed => ("names listed", "names+"),
        C::FileReads => ("files read from the start", "files+"),
        C::CpuUserNs => ("user time", "ns+"),
        C::CpuSystemNs => ("system time", "ns+"),
        C::Event0 | C::Event1 | C::Event2 | C::Event3 | C::Event4 | C::Event5 => ("processor events", "events+"),
        C::CpuAllowed => ("processors allowed", "processors"),
        C::LinkSentBytes => ("sent by others over the link", "bytes+"),
        C::LinkReceivedBytes => ("received by others over the link", "bytes+"),
    }
}
