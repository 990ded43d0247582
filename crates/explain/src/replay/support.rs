//! The gain that the recording supports: a change gains at most what the critical path was charged for what it removes, and a change
//! without such charges is not proposed.
//!
//! Removing something from every path leaves the critical one at least as long as its other parts. So a better prediction rests on an error
//! of the replay (a wait taken for another's, a transit of the wrong kind), and the charge is nearer to the truth.

use super::beside::Besides;
use super::rows::Rows;
use crate::cause::{Cause, End};
use crate::facts::Parts;
use crate::facts::killed::until_killed_ns;
use crate::limits::replay as limits;
use crate::observe::index::NONE;
use crate::path::ledger::Entry;
use crate::waits::place::{Missing, Place, What};
use thalweg_trace::{Meta, SpanKind};

/// Queueing for processors is removed with the work before or beside it.
const QUEUEING: &[Cause] = &[Cause::ClientRunqueue, Cause::ServerRunqueue];

/// Waits that end at devices.
const AT_DEVICES: &[Cause] = {
    use Cause as C;
    &[C::ClientRead, C::ServerRead, C::ClientWrite, C::ServerWrite, C::ClientSync, C::ServerSync, C::ClientMetadata, C::ServerMetadata]
};

/// Further causes removed with a process that is not started.
const WITH_A_PROCESS: &[Cause] = {
    use Cause as C;
    &[
        C::Recorder,
        C::ClientLock,
        C::ClientThink,
        C::ClientWrite,
        C::ClientSync,
        C::ServerCpu,
        C::ServerThink,
        C::ServerUnknown,
        C::NetworkLatency,
    ]
};

/// The causes that a change removes, and others that it may remove; `None` if it changes the order, not the lengths.
fn removes(id: &str) -> Option<(&'static [Cause], &'static [Cause])> {
    use Cause as C;
    let about: (&[Cause], &[Cause]) = match id {
        "device.read.x2" => (&[C::ClientRead, C::ServerRead], &[]),
        "device.write.x2" => (&[C::ClientWrite, C::ServerWrite, C::ClientSync, C::ServerSync, C::ClientMemory, C::ServerMemory], &[]),
        "write_once" => (
            &[C::ClientWrite, C::ServerWrite, C::ClientSync, C::ServerSync, C::ClientMemory, C::ServerMemory, C::ClientCpu],
            &[C::ServerCpu, C::ClientMetadata, C::ClientRead, C::ClientLock, C::Recorder],
        ),
        "read_once" => (
            &[C::ClientRead, C::ClientCpu, C::ClientMemory, C::NetworkBandwidth],
            &[C::ServerRead, C::ServerCpu, C::ClientMetadata, C::ClientWrite, C::ClientLock, C::ClientThink, C::Recorder],
        ),
        "no_disk_hog" => (AT_DEVICES, &[]),
        "no_throttle" => (&[C::ClientMemory, C::ServerMemory], &[]),
        "metadata.x2" => (&[C::ClientMetadata, C::ServerMetadata], &[]),
        // A sync's own running is charged to the processor.
        "no_sync" => (
            &[C::ClientSync, C::ServerSync],
            &[C::ClientCpu, C::ServerCpu, C::ClientMetadata, C::ServerMetadata, C::ClientWrite, C::ServerWrite],
        ),
        "sync_once" => (
            &[C::ClientSync, C::ServerSync],
            &[
                C::ClientCpu,
                C::ServerCpu,
                C::ClientMetadata,
                C::ServerMetadata,
                C::ClientWrite,
                C::ServerWrite,
                C::ClientRead,
                C::ServerRead,
            ],
        ),
        "connect_once" => (
            &[C::NetworkLatency, C::ServerUnknown, C::ClientCpu, C::ServerCpu],
            &[C::ServerThink, C::ClientRunqueue, C::ServerRunqueue, C::Recorder, C::ClientMemory, C::ServerMemory],
        ),
        "start_once" => (&[C::ClientCpu, C::ClientMetadata, C::ClientMemory, C::ClientRunqueue, C::ClientRead], WITH_A_PROCESS),
        "server.parallel" => (
            &[C::ServerThink, C::ServerUnknown, C::ServerLock, C::ServerRead, C::ServerSync, C::ServerCpu],
            &[C::ServerRunqueue, C::NetworkLatency],
        ),
        "no_nagle" => (&[C::NetworkLatency, C::ServerUnknown], &[]),
        "calls.larger" => (&[C::ClientCpu], &[C::ClientMetadata]),
        "disk.requests.x4" => (
            &[C::ClientRead, C::ServerRead, C::ClientWrite, C::ServerWrite, C::ClientMetadata, C::ServerMetadata],
            &[C::ClientCpu, C::ClientRunqueue, C::Recorder],
        ),
        "no_think" | "no_stop" | "time_limit" => (&[C::ClientThink, C::ServerThink], &[]),
        "names_at_once" => (
            &[C::ClientThink, C::ServerThink, C::ServerUnknown, C::Unknown, C::NetworkLatency, C::ServerCpu],
            &[C::NetworkLoss, C::NetworkBandwidth, C::ServerRunqueue, C::ServerLock, C::ServerRead],
        ),
        "no_lock" => (&[C::ClientLock, C::ServerLock], &[]),
        "no_cpu_quota" | "no_hog" | "processors.x2" => (QUEUEING, &[C::Recorder]),
        "processors.all" | "commands.all" => (&[C::ClientCpu], &[C::ClientMetadata, C::ClientRead, C::ClientWrite, C::ClientThink]),
        "no_recorder" => (&[C::Recorder], &[]),
        "cpu.client.x2" => (&[C::ClientCpu, C::ClientMetadata], &[]),
        "cpu.server.x2" => (&[C::ServerCpu, C::ServerMetadata], &[]),
        "link.x2" => (&[C::NetworkBandwidth], &[]),
        "rtt.half" => (&[C::NetworkLatency, C::NetworkCwnd, C::NetworkRwnd, C::NetworkSndbuf, C::NetworkLoss], &[]),
        "window.x4" => (&[C::NetworkRwnd, C::NetworkSndbuf], &[C::NetworkLatency]),
        // After a loss the window is small for a while.
        "no_loss" => (&[C::NetworkLoss], &[C::NetworkCwnd]),
        "no_slow_start" => (&[C::NetworkCwnd], &[]),
        "streams.x4" => (&[C::NetworkRwnd, C::NetworkSndbuf, C::NetworkCwnd, C::NetworkLoss], &[C::NetworkLatency]),
        "server.x2" => (&[C::ServerUnknown], &[]),
        _ => return None,
    };
    Some(about)
}

/// Causes of work under a lock.
const UNDER_A_LOCK: &[Cause] = {
    use Cause as C;
    &[
        C::ClientSync,
        C::ServerSync,
        C::ClientRead,
        C::ServerRead,
        C::ClientWrite,
        C::ServerWrite,
        C::ClientThink,
        C::ServerThink,
        C::ServerUnknown,
        C::ClientCpu,
        C::ServerCpu,
        C::NetworkLatency,
    ]
};

/// Work during a client's waits for answers, which more requests in flight, and asking ahead, overlap.
const ASKED: &[Cause] = {
    use Cause as C;
    &[
        C::ServerRead,
        C::ServerWrite,
        C::ServerSync,
        C::ServerMetadata,
        C::ServerMemory,
        C::ServerCpu,
        C::ServerRunqueue,
        C::ServerLock,
        C::ServerThink,
        C::ServerUnknown,
        C::NetworkLoss,
        C::NetworkSndbuf,
        C::NetworkRwnd,
        C::NetworkCwnd,
        C::NetworkLatency,
        C::NetworkBandwidth,
        C::ClientRead,
        C::ClientWrite,
        C::ClientSync,
        C::ClientMetadata,
    ]
};

/// Causes of alternating stages.
const STAGES: &[Cause] = {
    use Cause as C;
    &[
        C::ClientCpu,
        C::ClientRead,
        C::ClientWrite,
        C::ClientSync,
        C::ServerCpu,
        C::ServerRead,
        C::ServerWrite,
        C::ServerSync,
        C::ServerThink,
        C::ServerUnknown,
        C::NetworkLatency,
        C::NetworkBandwidth,
    ]
};

/// The causes whose time a change saves: those it removes, or those that a change of order overlaps.
pub(super) fn about(id: &str) -> &'static [Cause] {
    use Cause as C;
    match id {
        // A lost connection request waits for a timer, whatever the round trip.
        "rtt.half" => &[C::NetworkLatency, C::NetworkCwnd, C::NetworkRwnd, C::NetworkSndbuf],
        "no_poll" => &[C::ClientThink, C::ServerThink, C::NetworkLatency, C::ServerUnknown, C::ServerCpu, C::ClientCpu],
        "layout.wide" => &[C::ServerRead, C::ServerWrite, C::ServerSync],
        "layout.local" => &[C::NetworkBandwidth, C::NetworkLatency, C::NetworkCwnd, C::NetworkRwnd, C::NetworkSndbuf, C::NetworkLoss],
        "pipe.room" => &[C::ClientCpu, C::ClientRunqueue, C::ClientRead, C::ClientWrite, C::ServerCpu],
        "overlap.stages" => STAGES,
        "lock.outside" => UNDER_A_LOCK,
        "overlap.read_send" => &[C::ClientRead, C::ClientCpu, C::ClientRunqueue],
        _ => removes(id).map_or(ASKED, |(about, _)| about),
    }
}

/// Whether an entry is a mount's wait for programs' requests: it sleeps because there are none, and no change of it gains anything.
fn waits_for_requests(parts: &Parts<'_>, entry: &Entry) -> bool {
    match entry.place {
        Place::Thread { what: What::Blocked(SpanKind::WaitTimer), label, .. } => {
            parts.tables.actors.get(label as usize).is_some_and(|actor| actor.mount)
        }
        _ => false,
    }
}

/// Whether an entry is a pause between refused attempts to connect: there is no server yet that could be faster.
fn is_refused(parts: &Parts<'_>, entry: &Entry) -> bool {
    match entry.place {
        Place::FarEnd { connection, .. } => parts.seen.attempts.to_connect(parts.tables, connection).is_some(),
        Place::Thread { what: What::LooksFor(Missing::Listener), .. } => true,
        _ => false,
    }
}

/// Whether an entry is a wait for a server that never answered: no faster one is known to exist.
fn is_unanswered(parts: &Parts<'_>, entry: &Entry) -> bool {
    matches!(entry.place, Place::FarEnd { connection, .. } if connection != NONE && parts.is_silent(connection))
}

/// Charges by cause, as parts of the wall time, and further support for changes.
#[derive(Clone, Debug)]
pub(crate) struct Support {
    shares: Vec<f64>,
    /// Whether names were, or may have been, listed by any program.
    pub lists: bool,
    /// Whether servers slept between steps, rather than for an answer or once.
    pub servers_sleep_in_steps: bool,
    /// Work that continues beside what a change removes.
    besides: Besides,
}

impl Support {
    /// Reads it from the facts.
    pub(crate) fn of(parts: &Parts<'_>, meta: &Meta, rows: &Rows) -> Support {
        let mut shares = vec![0.0; Cause::ALL.len()];
        let wall_ns = (parts.end - parts.start).max(1) as f64;
        // A process that ran until it was killed would have been in any case.
        let entries = parts.ledger.entries.iter().zip(until_killed_ns(parts));
        let in_vain = |entry: &Entry| waits_for_requests(parts, entry) || is_refused(parts, entry) || is_unanswered(parts, entry);
        for (entry, killed_ns) in entries.filter(|(entry, _)| !in_vain(entry)) {
            shares[entry.cause as usize] += entry.runs.total_ns.saturating_sub(killed_ns) as f64 / wall_ns;
        }
        // A file server whose client makes small requests: the kernel does not show their kind.
        let serves_files = |name: &str| name.contains("nfs");
        let asks_server = parts.tables.actors.iter().any(|a| a.thread && a.end == End::Server && serves_files(&a.name));
        let named = meta.command.iter().any(|word| word.starts_with("nfs://"));
        // An interpreter lists directories of its own.
        let lists_served = rows.lists && parts.tables.objects.iter().any(|object| object.served_by().is_some());
        Support {
            shares,
            lists: lists_served || parts.seen.asking.delivered > 0 || asks_server || named,
            servers_sleep_in_steps: parts.ledger.servers_sleep_in_steps(),
            besides: Besides::of(parts),
        }
    }

    /// The part of the wall time charged to these causes.
    pub(crate) fn share(&self, causes: &[Cause]) -> f64 {
        causes.iter().map(|&cause| self.shares[cause as usize]).sum()
    }

    /// The part of the wall time that remains after a change for other processes.
    pub(crate) fn beside(&self, id: &str) -> f64 {
        removes(id).map_or(0.0, |(removed, _)| self.besides.least(id, removed)).min(1.0)
    }

    /// The largest part of the wall time that a change can save; `None` if the recording does not support it.
    pub(crate) fn most(&self, id: &str) -> Option<f64> {
        if self.share(about(id)) < limits::LEAST_GAIN {
            return None;
        }
        let Some((removed, besides)) = removes(id) else { return Some(1.0) };
        let queueing = if removed == QUEUEING { 0.0 } else { self.share(QUEUEING) };
        Some(self.share(removed) + self.share(besides) + queueing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charged(shares: &[(Cause, f64)]) -> Support {
        let mut all = vec![0.0; Cause::ALL.len()];
        shares.iter().for_each(|&(cause, share)| all[cause as usize] = share);
        Support { shares: all, lists: false, servers_sleep_in_steps: true, besides: Besides::default() }
    }

    #[test]
    fn what_was_not_charged_cannot_be_gained() {
        let support =
            charged(&[(Cause::NetworkCwnd, 0.3), (Cause::ClientThink, 0.2), (Cause::ClientRunqueue, 0.1), (Cause::ClientCpu, 0.4)]);
        let near = |id, share: f64| assert!((support.most(id).unwrap() - share).abs() < 1e-9, "{id}: {:?}", support.most(id));
        assert_eq!(support.most("no_loss"), None, "nothing was lost");
        assert_eq!(support.most("no_lock"), None);
        assert_eq!(charged(&[(Cause::NetworkLoss, 0.9)]).most("rtt.half"), None, "a lost SYN waits for a timer");
        near("no_slow_start", 0.4);
        near("no_think", 0.3);
        near("processors.x2", 0.1);
        near("requests.x4", 1.0);
    }
}
