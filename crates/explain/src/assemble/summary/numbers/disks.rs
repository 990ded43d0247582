//! One request of a disk at a time.

use super::super::figures::device;
use super::super::groups::Group;
use super::raise::{Behind, Raise};
use super::run::Run;
use super::words::number;
use crate::cause::Cause;
use crate::document::{Number, NumberKind};
use crate::limits::numbers as limits;
use thalweg_trace::numbers::{count, duration, size};

/// Small requests of the device that was waited for, one after the other.
pub(super) fn find(run: &Run<'_>, group: &Group<'_>) -> Option<Behind> {
    use Cause as C;
    if !matches!(group.cause, C::ClientRead | C::ServerRead | C::ClientWrite | C::ServerWrite | C::ClientMetadata | C::ServerMetadata) {
        return None;
    }
    let name = group.device()?;
    let (_, did) = device(run.of, name)?;
    let n = did.requests.count;
    let busy_ns = did.all.finish().busy_ns.max(1);
    let bytes = (did.read_bytes + did.written_bytes) / n.max(1);
    let at_once = did.requests.total_ns as f64 / busy_ns as f64;
    // A disk that is used by the way explains nothing.
    if (busy_ns as f64) < group.ns as f64 * limits::DISK_EXPLAINS {
        return None;
    }
    if n < limits::LEAST_REQUESTS || at_once > limits::ONE_UNDER_WAY || bytes > limits::SMALL_REQUEST {
        return None;
    }
    let each_s = did.requests.total_ns as f64 / 1e9 / n as f64;
    let sentence = format!("One request of {} at a time on {name}: {} × {}.", size(bytes), count(n), duration(each_s));
    let made = Number { count: Some(n), each_s: Some(each_s), bytes: Some(bytes), ..number(NumberKind::DiskOneAtATime, sentence) };
    let how = "ask for several at a time: threads, asynchronous I/O, reading ahead (posix_fadvise(2), madvise(2)); or read in order, in large pieces";
    let change = format!("four requests at a time on {name}");
    // What is computed and queued for each request goes on side by side as well.
    let of_each = |cause: Cause| matches!(cause, C::ClientCpu | C::ClientRunqueue | C::Recorder) || cause == group.cause;
    let gained_ns = run.of.parts.wall_s() * 1e9 * run.of.share(of_each) * (1.0 - 1.0 / limits::MORE_AT_ONCE as f64);
    Some(made.raised_by(Raise { id: "disk.requests.x4", change, how, gained_ns }))
}
