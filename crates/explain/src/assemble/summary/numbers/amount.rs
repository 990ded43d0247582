//! Repeated bytes: how many times over a file's bytes moved, compared with its size.
//!
//! A program that reads a file 26 times over is slow on any disk, processor and page cache, and none of its causes shows it. A file's size
//! is the one recorded at its first use, or at the end if it was written; the bytes are those of all calls, from the page cache too.

use super::super::groups::Group;
use super::raise::Behind;
use super::run::Run;
use super::words::number;
use crate::cause::{Cause, End};
use crate::document::{Number, NumberKind};
use crate::facts::again::{Again, Copied, Fetched, Replaced};
use crate::facts::names::{brief, file_name};
use crate::facts::raise::Raise;
use crate::limits::numbers as limits;
use thalweg_base::numbers::{count, duration, size};

/// The object moved again most: a file, or a server's answer.
pub(super) fn find(run: &Run<'_>, group: &Group<'_>) -> Option<Behind> {
    let moved = fetched(run, group).or_else(|| of_file(run, group)).or_else(|| of_copy(run, group));
    moved.map(Behind::from).or_else(|| opened(run, group))
}

/// The file that was opened repeatedly, if each call was recorded: nearly all closed files were this one.
fn opened(run: &Run<'_>, group: &Group<'_>) -> Option<Behind> {
    let parts = run.of.parts;
    let (object, times, all) = parts.seen.sightings.closed_most().filter(|_| group.cause == Cause::ClientMetadata)?;
    if times < limits::MANY_CALLS || (times as f64) < all as f64 * limits::AS_MANY {
        return None;
    }
    let each_s = group.ns as f64 / 1e9 / times as f64;
    let name = brief(file_name(&parts.tables.objects[object].name));
    let sentence = format!("{name} was opened {} times, {} of metadata calls for each.", count(times), duration(each_s));
    let made = Number { count: Some(times), each_s: Some(each_s), ..number(NumberKind::TimesOver, sentence) };
    let how = "open it once, and keep it open: what is asked of a descriptor (pread, fstat) needs no name";
    Some(made.raised_by(Raise::part(group, 1.0 - 1.0 / times as f64, "calls.larger", "the file opened once", how)))
}

/// The file with most bytes read again, or written again.
fn of_file(run: &Run<'_>, group: &Group<'_>) -> Option<Number> {
    use Cause as C;
    if run.synced.transactions > 0 {
        // Each transaction writes a journal.
        return None;
    }
    let (reads, writes) = match group.cause {
        C::ClientCpu | C::ClientMemory | C::ClientRunqueue => (true, true),
        C::ClientRead | C::NetworkBandwidth => (true, false),
        C::ClientWrite | C::ClientSync => (false, true),
        _ => return None,
    };
    let read = reads.then(|| Again::find(run.of.parts, false)).flatten();
    let written = writes.then(|| Again::find(run.of.parts, true)).flatten();
    let again = read.into_iter().chain(written).max_by_key(|again| (again.bytes - again.file_bytes, again.object))?;
    let (name, ratio) = (file_name(&run.of.parts.tables.objects[again.object].name), again.times());
    let (verb, of) = if again.out { ("written", "to") } else { ("read", "from") };
    let (bytes, all) = (size(again.bytes), size(again.file_bytes));
    let moved = if again.out { "wrote" } else { "read" };
    let sentence = match again.replaced {
        Some(Replaced::ByProcesses(processes)) => {
            format!("{} was replaced for each change: {} processes {moved} {bytes}.", brief(name), count(processes))
        }
        Some(Replaced::Times(times)) => format!("{} was replaced {} times: {bytes} {verb} in all.", brief(name), count(times)),
        None => {
            let at_least = if again.is_at_least() { "at least " } else { "" };
            format!("{} was {verb} {at_least}{}: {bytes} {verb} {of} a file of {all}.", brief(name), times(ratio))
        }
    };
    let made = number(NumberKind::TimesOver, sentence);
    Some(Number { count: Some(ratio.round() as u64), bytes: Some(again.bytes), ..made })
}

/// A file whose bytes were then copied to another file.
fn of_copy(run: &Run<'_>, group: &Group<'_>) -> Option<Number> {
    use Cause as C;
    if !matches!(group.cause, C::ClientCpu | C::ClientMemory | C::ClientRunqueue | C::ClientRead | C::ClientWrite | C::ClientSync) {
        return None;
    }
    let copied = Copied::find(run.of.parts)?;
    let name = |object: usize| brief(file_name(&run.of.parts.tables.objects[object].name));
    let sentence = format!("{} were written twice: to {}, and from there to {}.", size(copied.bytes), name(copied.from), name(copied.to));
    Some(Number { count: Some(2), bytes: Some(2 * copied.bytes), ..number(NumberKind::TimesOver, sentence) })
}

/// The object that was requested repeatedly, if the run waited for answers.
fn fetched(run: &Run<'_>, group: &Group<'_>) -> Option<Number> {
    let parts = run.of.parts;
    let is_about = group.cause.is_network()
        || group.cause.end() == Some(End::Server)
        || parts.seen.questions.waited_for(End::Client, parts.tables, parts.end - parts.start).is_some();
    let again = Fetched::find(run.of.meta, parts).filter(|_| is_about)?;
    let verb = if again.out { "sent" } else { "fetched" };
    let path = brief(file_name(&again.path));
    let (requests, different) = (count(again.requests), count(again.different));
    let sentence = match again.bytes {
        Some((all, of)) => {
            format!(
                "{path} was {verb} {}: {} in {requests} requests for {different} ranges of {}.",
                times(again.times()),
                size(all),
                size(of)
            )
        }
        None if again.different == 1 => format!("{path} was {verb} {}, each time with the same request.", times(again.times())),
        None => format!("{path} was {verb} {}: {requests} requests, {different} of them different.", times(again.times())),
    };
    let bytes = again.bytes.map(|(all, _)| all);
    Some(Number {
        count: Some(again.times().round() as u64),
        items: Some(again.different),
        bytes,
        ..number(NumberKind::TimesOver, sentence)
    })
}

/// `twice`, `26 times over`, `2.5 times over`.
fn times(ratio: f64) -> String {
    let whole = ratio.round();
    if (ratio - 2.0).abs() <= limits::NEARLY_WHOLE {
        "twice".to_owned()
    } else if ratio >= limits::WHOLE_TIMES || (ratio - whole).abs() <= limits::NEARLY_WHOLE {
        format!("{} times over", count(whole as u64))
    } else {
        format!("{ratio:.1} times over")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_often_a_file_was_read_is_said_as_people_say_it() {
        assert_eq!([2.02, 25.7, 2.5, 3.0].map(times), ["twice", "26 times over", "2.5 times over", "3 times over"]);
    }
}
