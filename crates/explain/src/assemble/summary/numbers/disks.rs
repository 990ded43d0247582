//! One disk request in flight at a time, for the program that waited, if requests are recorded with their issuer. Others' requests make
//! each of its requests longer, but leave it with one in flight.

use super::super::figures::device;
use super::super::groups::Group;
use super::raise::Behind;
use super::run::Run;
use super::words::number;
use crate::cause::Cause;
use crate::document::{Number, NumberKind};
use crate::facts::raise::Raise;
use crate::limits::numbers as limits;
use crate::observe::observation::DeviceActivity;
use crate::observe::overlap::together_ns;
use thalweg_base::numbers::{count, duration, size};

/// Small sequential requests of the device that was waited for.
pub(super) fn find(run: &Run<'_>, group: &Group<'_>) -> Option<Behind> {
    use Cause as C;
    if !matches!(group.cause, C::ClientRead | C::ServerRead | C::ClientWrite | C::ServerWrite | C::ClientMetadata | C::ServerMetadata) {
        return None;
    }
    let name = group.device()?;
    let (_, did) = device(run.of, name)?;
    let explains = |asked: &DiskRequests| asked.busy_ns as f64 >= group.ns as f64 * limits::DISK_EXPLAINS;
    // A disk that was used incidentally explains nothing.
    let asked = own(run, group, did).filter(explains).or_else(|| Some(all(did)).filter(explains))?;
    let (n, bytes) = (asked.requests, asked.bytes / asked.requests.max(1));
    if n < limits::LEAST_REQUESTS || !asked.one_at_a_time() || bytes > limits::SMALL_REQUEST {
        return None;
    }
    let each_s = asked.total_ns.min(asked.busy_ns) as f64 / 1e9 / n as f64;
    let sentence = format!("One request of {} at a time on {name}: {} × {}.", size(bytes), count(n), duration(each_s));
    let made = Number { count: Some(n), each_s: Some(each_s), bytes: Some(bytes), ..number(NumberKind::DiskOneAtATime, sentence) };
    let how = "ask for several at a time: threads, asynchronous I/O, reading ahead (posix_fadvise(2), madvise(2)); or read in order, in large pieces";
    let change = format!("four requests at a time on {name}");
    // The computing and queueing of each request overlap as well.
    let of_each = |cause: Cause| matches!(cause, C::ClientCpu | C::ClientRunqueue | C::Recorder) || cause == group.cause;
    let gained_ns = run.of.parts.wall_s() * 1e9 * run.of.share(of_each) * (1.0 - 1.0 / limits::MORE_AT_ONCE as f64);
    Some(made.raised_by(Raise { id: "disk.requests.x4", change, how, gained_ns }))
}

/// The requests of a device.
struct DiskRequests {
    requests: u64,
    bytes: u64,
    /// Time in which any was in flight.
    busy_ns: u64,
    /// Their total time.
    total_ns: u64,
    /// Time in which exactly one was in flight; 0 if unknown.
    alone_ns: u64,
}

impl DiskRequests {
    /// Whether one is in flight at a time: on average, or for nearly all of the time (a burst, as when a program starts, raises the
    /// average).
    fn one_at_a_time(&self) -> bool {
        let busy_ns = self.busy_ns.max(1) as f64;
        self.total_ns as f64 <= busy_ns * limits::ONE_UNDER_WAY || self.alone_ns as f64 >= busy_ns * limits::ALONE_UNDER_WAY
    }
}

/// All requests of a device.
fn all(did: &DeviceActivity) -> DiskRequests {
    let (bytes, busy_ns) = (did.read_bytes + did.written_bytes, did.all.finish().busy_ns.unsigned_abs());
    DiskRequests { requests: did.requests.count, bytes, busy_ns, total_ns: did.requests.total_ns, alone_ns: 0 }
}

/// The requests of threads of the waiting end; `None` if the recording lacks requests or their issuers.
fn own(run: &Run<'_>, group: &Group<'_>, did: &DeviceActivity) -> Option<DiskRequests> {
    let end = group.cause.end()?;
    let actors = &run.of.parts.tables.actors;
    let is_own = |by: u32| actors.get(by as usize).is_some_and(|actor| actor.thread && actor.end == end);
    let kept = did.of_whom.iter().count() as u64;
    let own: Vec<_> = did.of_whom.iter().filter(|request| is_own(request.by)).collect();
    let mut changes: Vec<(i64, i64)> = own.iter().flat_map(|request| [(request.start, 1), (request.end, -1)]).collect();
    changes.sort_unstable();
    let (mut level, mut since, mut alone_ns) = (0, 0, 0);
    for (at, change) in changes {
        if level == 1 {
            alone_ns += at - since;
        }
        (level, since) = (level + change, at);
    }
    (kept == did.requests.count && !own.is_empty()).then(|| DiskRequests {
        alone_ns: alone_ns.unsigned_abs(),
        requests: own.len() as u64,
        bytes: own.iter().map(|request| request.bytes).sum(),
        busy_ns: together_ns(own.iter().map(|request| (request.start, request.end)).collect()).unsigned_abs(),
        total_ns: own.iter().map(|request| (request.end - request.start).unsigned_abs()).sum(),
    })
}
