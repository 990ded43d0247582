//! Remarks: what makes the figures unreliable, in one short line each, most important first.

use super::figures::busy;
use super::groups::Group;
use super::of::Of;
use crate::assemble::notes;
use crate::cause::{Cause, End};
use crate::document::Status;
use crate::facts::ceiling;
use crate::facts::doubted::{ForOthers, for_others};
use crate::facts::names::{far_end, program};
use crate::limits::summary as limits;
use crate::observe::spins::Spins;
use thalweg_base::numbers::{count, size, whole_percent};

/// The remarks on a run. `standing` says how certain the verdict is.
pub(super) fn remarks(of: &Of<'_>, groups: &[Group<'_>], standing: Option<String>) -> Vec<String> {
    let mut remarks = Vec::new();
    if of.is_short() {
        remarks.push(too_short());
        return remarks;
    }
    remarks.extend(notes::emulated(of.meta).map(|devices| format!("emulated, not this machine's own: {devices}")));
    if of.meta.end.is_none() {
        remarks.push("the recording was not finished: explained up to its last event".to_owned());
    }
    if of.meta.dropped_events > 0 {
        remarks.push(format!("{} events were lost: all figures are less certain by that much", count(of.meta.dropped_events)));
    }
    remarks.extend(groups.first().and_then(|leading| hottest(of, leading)));
    // (What would settle an unsure answer says it there.)
    remarks.extend(server(of).filter(|_| of.verdict.settle.is_empty()));
    remarks.extend(held_above(of, groups));
    remarks.extend(works_for_others(of, groups));
    remarks.extend(asks(of));
    remarks.extend(standing);
    remarks
}

/// How certain the verdict is, or what ran at its ceiling. (A ceiling does not mean that no gain is possible: the same bytes may have moved
/// twice, and processors may do unnecessary work.)
pub(super) fn standing(of: &Of<'_>, groups: &[Group<'_>]) -> Option<String> {
    match of.verdict.status {
        Status::Unsure => doubt(of, groups),
        Status::Healthy => Some(ceiling::reached(of.parts, of.meta, of.verdict.cause)?.statement),
        Status::Limited | Status::Inconclusive => None,
    }
}

/// The remark on a run too short to explain.
pub(crate) fn too_short() -> String {
    format!("too short to advise on: below {:.0} ms, most of a run is startup and exit", limits::SHORT_S * 1e3)
}

/// The functions with a quarter or more of the leading program's samples.
fn hottest(of: &Of<'_>, leading: &Group<'_>) -> Option<String> {
    let hottest = of.parts.around.hottest.of(leading.cause, &leading.members, of.parts.wall_s() * 1e9);
    // That a program without symbols computed in its own file adds nothing to its row.
    let is_itself = |function: &str| {
        leading.names.iter().any(|name| function.strip_prefix('[').and_then(|f| f.strip_suffix(']')) == Some(name.as_str()))
    };
    let hot = hottest.iter().filter(|hot| hot.of_samples >= limits::HOT_PART && !is_itself(&hot.function));
    let said: Vec<String> =
        hot.map(|hot| format!("{} {}", function_in(&hot.function, &hot.module), whole_percent(hot.of_samples))).collect();
    (!said.is_empty()).then(|| format!("hottest: {} of its samples", said.join(", ")))
}

/// `deflate_slow in libz.so.1`; the file alone if its functions have no names.
fn function_in(function: &str, module: &str) -> String {
    let name = match function.char_indices().nth(limits::LONG_FUNCTION) {
        Some((end, _)) => format!("{}…", &function[..end]),
        None => function.to_owned(),
    };
    match (function.strip_prefix('[').and_then(|name| name.strip_suffix(']')), module) {
        (Some("jit"), _) => "JIT-compiled code,".to_owned(),
        (Some("kernel"), _) => "the kernel,".to_owned(),
        (Some(file), _) => format!("{file} (no symbol there),"),
        (None, "" | "jit") => format!("{name},"),
        (None, "kernel") => format!("{name} in the kernel,"),
        (None, module) => format!("{name} in {module},"),
    }
}

/// The device that the largest wait for a device is for, with the share of the run that it was busy.
fn waited_for<'g, 'a>(of: &Of<'_>, groups: &'g [Group<'a>]) -> Option<(&'g Group<'a>, String, f64)> {
    use Cause as C;
    let at_device =
        |g: &&Group<'_>| matches!(g.cause, C::ClientRead | C::ServerRead | C::ClientWrite | C::ServerWrite | C::ClientSync | C::ServerSync);
    let largest = groups.iter().find(at_device).filter(|g| g.share >= limits::HELD_SHARE)?;
    let (name, part) = busy(of, largest.device()?)?;
    Some((largest, name.to_owned(), part))
}

/// The remark on a device that worked for other programs too, where the recording does not say whose a request was.
fn works_for_others(of: &Of<'_>, groups: &[Group<'_>]) -> Option<String> {
    let (largest, name, _) = waited_for(of, groups).filter(|_| of.parts.tables.wakers_inferred)?;
    let syncs = matches!(largest.cause, Cause::ClientSync | Cause::ServerSync);
    let ForOthers { all, own } = for_others(of.parts.tables, of.parts.seen, &name, syncs)?;
    let did = if syncs { "wrote" } else { "read" };
    Some(format!("{name} worked for other programs too: it {did} {}, this run's files {}", size(all), size(own)))
}

/// The remark on a device that was waited for but hardly busy: something above it delayed the requests, and no known limit explains it.
fn held_above(of: &Of<'_>, groups: &[Group<'_>]) -> Option<String> {
    let (largest, name, part) = waited_for(of, groups)?;
    // A limit that the sentence names is the explanation.
    let is_named = |name: &str| of.parts.around.limits.group_of(name).is_some() || !of.parts.aside(largest.largest).is_empty();
    if is_named(&name) {
        return None;
    }
    // Busy waiting keeps processors from the kernel threads that would pass requests on.
    (part <= largest.share * limits::HELD_PART && spins_for_a_lock(of).is_none())
        .then(|| format!("something above {name} delayed its requests: io.max, a scheduler, device mapper"))
}

/// Threads that busy-wait for each other.
fn spins_for_a_lock<'a>(of: &'a Of<'_>) -> Option<&'a Spins> {
    of.parts.facts.spins.as_ref().filter(|spins| spins.are_for_a_lock())
}

/// The remark on threads that busy-wait for most of the run.
fn asks(of: &Of<'_>) -> Option<String> {
    let who = program(of.parts.tables, of.meta, *of.parts.waiting_by_running().first()?);
    if let Some(spins) = spins_for_a_lock(of) {
        if spins.tracks.len() == 1 {
            return Some(format!(
                "{who} spins on a lock that another of its threads holds: a faster CPU gains nothing; a lock that sleeps (a mutex) frees it"
            ));
        }
        let threads = count(spins.tracks.len() as u64);
        return Some(format!(
            "{threads} threads of {who} spin on a lock that one of them holds: faster CPUs gain nothing; a lock that sleeps (a mutex) frees them"
        ));
    }
    Some(format!("{who} busy-waits (polls without sleeping): it keeps a CPU busy, and a faster CPU gains nothing"))
}

/// How to record the server, if its part is unknown.
fn server(of: &Of<'_>) -> Option<String> {
    let (end, connection) = of.unrecorded?;
    if end != End::Client || of.share(|c| c == Cause::ServerUnknown) < limits::INNOCENT {
        return None;
    }
    let (host, port) = far_end(of.parts.tables, connection)?.rsplit_once(':')?;
    Some(if of.parts.tables.is_within_machine(connection) {
        format!("record the server too: thalweg explain --also :{port} -- COMMAND")
    } else {
        format!("record the server too, on {host}: thalweg record --server --port {port} -o s.thw")
    })
}

/// Why the answer is uncertain.
fn doubt(of: &Of<'_>, groups: &[Group<'_>]) -> Option<String> {
    let unknown = of.share(|c| c == Cause::Unknown);
    let inferred: f64 = of.charges.list.iter().filter(|c| c.cause != Cause::Unknown).map(|c| c.inferred_s).sum::<f64>() / of.parts.wall_s();
    if unknown >= inferred {
        let whose = groups.iter().find(|g| g.cause == Cause::Unknown).map(Group::who)?;
        return Some(format!("not sure: what took {} of the time was not recorded ({whose})", whole_percent(unknown)));
    }
    Some(format!("not sure: {} of the time is inferred, and may belong to another cause", whole_percent(inferred)))
}
