//! Rules that need a thread's span alone: pure functions from a span to the rule that applies. `MODEL.md` describes them in words.

use crate::cause::Activity;
use crate::limits::waits as limits;
use crate::observe::span::LiveSpan;
use crate::rule::RuleId;
use thalweg_trace::SpanKind;

/// How a span is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The thread's own work: running is `running`, blocked is `blocked`, in the proportion known for the whole span.
    Work {
        /// The activity while running.
        running: Activity,
        /// The activity while blocked.
        blocked: Activity,
    },
    /// Consists of other spans: the rest is running.
    Container,
    /// Waits for another thread: continue on the waker.
    Thread,
    /// Waits for bytes: continue at their sender.
    Receive,
    /// Waits for room: continue at the receiver.
    Send,
    /// Blocked throughout, for this.
    Wait(Activity),
    /// Blocked on a device on behalf of the file call around it.
    Device,
    /// A round trip.
    RoundTrip,
    /// Unknown.
    Unknown,
}

/// Work on names and attributes.
const NAMES: Rule = Rule::Work { running: Activity::Metadata, blocked: Activity::Metadata };

/// The rule for a kind of span.
pub(crate) const fn rule(kind: SpanKind) -> Rule {
    use SpanKind as K;
    match kind {
        K::FileRead => Rule::Work { running: Activity::Cpu, blocked: Activity::Read },
        K::FileWrite => Rule::Work { running: Activity::Cpu, blocked: Activity::Write },
        K::FileSync => Rule::Work { running: Activity::Cpu, blocked: Activity::Sync },
        K::FileOpen | K::FileStat | K::FileList | K::FileClose | K::FileOther => NAMES,
        K::FileTruncate | K::FileRemove | K::FileRename | K::FileCreate => NAMES,
        K::AppRequest | K::RpcServe | K::RpcCall => Rule::Container,
        K::MpiSend | K::MpiReceive | K::MpiMessage | K::MpiCollective | K::MpiWait => Rule::Container,
        K::MpiRead | K::MpiWrite | K::MpiIo | K::MpiOther => Rule::Container,
        K::WaitLock => Rule::Thread,
        K::NetReceive | K::WaitNetwork => Rule::Receive,
        K::NetSend => Rule::Send,
        K::NetConnect => Rule::RoundTrip,
        K::DiskRead | K::DiskWrite | K::DiskFlush | K::WaitDisk => Rule::Device,
        K::WaitTimer => Rule::Wait(Activity::Think),
        K::WaitMemory => Rule::Wait(Activity::Memory),
        K::WaitRunqueue => Rule::Wait(Activity::Runqueue),
        K::CpuRun => Rule::Work { running: Activity::Cpu, blocked: Activity::Cpu },
        K::AppChecksum | K::AppOther => Rule::Work { running: Activity::Cpu, blocked: Activity::Memory },
        K::RpcQueue | K::WaitOther => Rule::Unknown,
    }
}

/// Blocked time within the clocks' resolution, which counts as running, in ns.
pub(crate) fn grain_ns(span: &LiveSpan) -> u64 {
    (span.duration_ns() / limits::GRAIN_PART).max(limits::GRAIN_NS)
}

/// The three parts of a wait, in order: blocked until `.0`, runnable until `.1`, running until its end.
pub(crate) fn wait_parts(span: &LiveSpan) -> (i64, i64) {
    match span.division() {
        None => (span.end, span.end),
        // The last stretch of a wait at full speed may be short: the awaited event came then.
        Some((_, runqueue, blocked))
            if blocked <= grain_ns(span) && span.kind != SpanKind::WaitLock && !(span.is_fruitless() && span.is_by_packet()) =>
        {
            (span.start, span.start + runqueue as i64)
        }
        Some((cpu, runqueue, _)) => (span.end - (cpu + runqueue) as i64, span.end - cpu as i64),
    }
}

/// Whether a span is a wait without work until an event. A thread never wakes others in one.
pub(crate) fn is_idle_wait(span: &LiveSpan) -> bool {
    match rule(span.kind) {
        Rule::Thread | Rule::Wait(_) | Rule::Unknown => true,
        Rule::Receive => span.division().is_none_or(|(cpu, _, blocked)| blocked >= cpu),
        _ => false,
    }
}

/// Whether a span of this kind is on a file, or its device.
pub(crate) fn is_on_files(kind: SpanKind) -> bool {
    kind.name().starts_with("file.") || kind == SpanKind::WaitDisk
}

/// The activity of the blocked part of a file call on a device.
pub(crate) const fn device_activity(around: Option<SpanKind>, own: SpanKind) -> Activity {
    match (around, own) {
        (Some(SpanKind::FileSync), _) | (_, SpanKind::DiskFlush) => Activity::Sync,
        (Some(SpanKind::FileWrite), _) | (_, SpanKind::DiskWrite) => Activity::Write,
        _ => Activity::Read,
    }
}

/// The rule for being blocked in own work.
pub(crate) const fn in_blocked(activity: Activity) -> RuleId {
    match activity {
        Activity::Memory => RuleId::Memory,
        Activity::Cpu => RuleId::BlockedComputing,
        _ => RuleId::FileBlocked,
    }
}

/// The activity within an RPC that moves no data: work is on names and attributes; waits for a CPU or stable storage are unchanged.
pub(crate) const fn for_metadata(activity: Activity) -> Activity {
    match activity {
        Activity::Cpu | Activity::Read | Activity::Write | Activity::Memory | Activity::Lock => Activity::Metadata,
        other => other,
    }
}
