//! Bytes per call, if calls are the work.

use super::super::figures::sampled;
use super::super::groups::Group;
use super::raise::Behind;
use super::run::Run;
use super::words::number;
use crate::cause::{Cause, End};
use crate::document::{Number, NumberKind};
use crate::facts::raise::Raise;
use crate::limits::numbers as limits;
use thalweg_base::numbers::{count, duration, size};

/// The small calls behind a client's computing.
pub(super) fn find(run: &Run<'_>, group: &Group<'_>) -> Option<Behind> {
    if group.cause != Cause::ClientCpu {
        return None;
    }
    // If the file is opened and closed for each call, that time belongs to the call.
    let opening_ns = run.of.parts.wall_s() * 1e9 * run.of.share(|cause| cause == Cause::ClientMetadata);
    let Calls { what, out, in_calls_ns } = calls(run, group, opening_ns)?;
    // The file or connection with most calls: the program's other writes (a line to its terminal) have calls of another size.
    let moved = run.of.parts.seen.moved[End::Client as usize].iter().map(|ways| ways[usize::from(out)]);
    let (bytes, calls) = moved.max_by_key(|moved| moved.calls).map_or((0, 0), |moved| (moved.bytes, moved.calls));
    // Rounded, so that a few calls of another size (a line to a terminal) do not show.
    let each = (bytes + calls / 2) / calls.max(1);
    if calls < limits::MANY_CALLS || each > limits::SMALL_CALL {
        return None;
    }
    let each_s = in_calls_ns / 1e9 / calls as f64;
    let bytes = match each {
        1 => "1 byte".to_owned(),
        each if each < 1024 => format!("{each} bytes"),
        each => size(each),
    };
    let opens = || run.of.parts.around.on_names(&group.members).and_then(|(_, calls)| calls.first().map(|(name, _)| *name == "open"));
    let opened = if opening_ns > in_calls_ns / 2.0 && opens() == Some(true) { ", the file opened for each" } else { "" };
    let sentence = format!("{what} of {bytes}{opened}: {} calls × {}.", count(calls), duration(each_s));
    let made = Number { count: Some(calls), each_s: Some(each_s), bytes: Some(each), ..number(NumberKind::CallSize, sentence) };
    let how = "move more with each call: a buffer of 64 KiB or more in the program, or buffered I/O (stdio) around the file";
    // Less running also means less queueing.
    let queued = 1.0
        + run.of.share(|cause| cause == Cause::ClientRunqueue)
            / run.of.share(|cause| matches!(cause, Cause::ClientCpu | Cause::ClientMetadata));
    let gained_ns =
        queued * (group.ns as f64 * by_calls(run, group) + opening_ns - calls as f64 * each as f64 * limits::LEAST_COPY_NS).max(0.0);
    Some(made.raised_by(Raise { id: "calls.larger", change: "large buffers instead of small calls".to_owned(), how, gained_ns }))
}

/// The calls behind a client's computing.
struct Calls {
    what: &'static str,
    /// Whether they write or send.
    out: bool,
    /// Their time, in nanoseconds.
    in_calls_ns: f64,
}

/// The kind of call that samples found in a fair part of the computing; or else, together with the calls on names that accompany each, in a
/// fair part of both.
fn calls(run: &Run<'_>, group: &Group<'_>, opening_ns: f64) -> Option<Calls> {
    const KINDS: [(&str, &str, bool); 4] =
        [("read", "Reads", false), ("receive", "Receives", false), ("write", "Writes", true), ("send", "Sends", true)];
    let computed_ns = group.ns as f64;
    let sampled = sampled(run.of, group).filter(|(_, part)| *part >= limits::IN_CALLS);
    let kind_of = |class: &str| KINDS.iter().find(|(kind, ..)| *kind == class);
    if let Some((&(_, what, out), part)) = sampled.and_then(|(class, part)| Some((kind_of(&class)?, part))) {
        return Some(Calls { what, out, in_calls_ns: computed_ns * part });
    }
    let part_of = |kind: &str| run.of.parts.around.part_sampled(&group.members, |class| class == kind);
    let (part, &(_, what, out)) = KINDS
        .iter()
        .filter(|(kind, ..)| matches!(*kind, "read" | "write"))
        .map(|kind| (part_of(kind.0), kind))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    let in_calls_ns = computed_ns * part + opening_ns;
    let is_fair = opening_ns > 0.0 && part > 0.0 && in_calls_ns >= (computed_ns + opening_ns) * limits::IN_CALLS;
    is_fair.then_some(Calls { what, out, in_calls_ns })
}

/// The part of a group's samples that depends on the number of calls, not on bytes: calls that move data, and the loop around them.
fn by_calls(run: &Run<'_>, group: &Group<'_>) -> f64 {
    run.of.parts.around.part_sampled(&group.members, |class| matches!(class, "read" | "receive" | "write" | "send" | "user"))
}
