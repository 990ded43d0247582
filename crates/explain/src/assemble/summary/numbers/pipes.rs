//! Two programs that take turns through one or two pipes.

use super::raise::Behind;
use super::run::Run;
use super::words::number;
use crate::document::{Number, NumberKind};
use crate::facts::names::program;
use crate::facts::raise::Raise;
use crate::limits::numbers as limits;
use thalweg_base::numbers::{count, duration};
use thalweg_trace::ObjectKind;

/// The two programs, and how often they alternated.
pub(super) fn find(run: &Run<'_>) -> Option<Behind> {
    let of = run.of;
    let Some((joined, turns)) = of.parts.taking_turns_at_a_pipe() else { return questions(run) };
    let name = |track: u32| program(of.parts.tables, of.meta, track);
    let (writer, reader) = (name(joined.writer.1), name(joined.reader.1));
    let sentence = format!(
        "{writer} and {reader} took turns through a pipe, {} times: with a larger buffer both would run at the same time.",
        count(turns)
    );
    Some(Number { count: Some(turns), ..number(NumberKind::InSeries, sentence) }.into())
}

/// Requests through one pipe that each wait for the answer through another, while both programs compute: with requests in flight, they
/// would compute simultaneously.
fn questions(run: &Run<'_>) -> Option<Behind> {
    let parts = run.of.parts;
    let began = |track: u32| parts.seen.did[track as usize].first_start;
    let wall_ns = parts.end - parts.start;
    let asked = parts.seen.pipes.one_at_a_time(wall_ns, began).filter(|asked| asked.count >= limits::LEAST_ITEMS)?;
    let [asker, answerer] = [asked.asker, asked.answerer];
    let ran = |track: u32| parts.threads_ran().find(|(number, ..)| *number == track).map_or(0, |(.., ns)| ns);
    if (ran(asker).min(ran(answerer)) as f64) < wall_ns as f64 * limits::STAGE_SHARE {
        return None;
    }
    let name = |track: u32| program(parts.tables, run.of.meta, track);
    let [each_s, between_s] = [asked.asked_ns, asked.idle_ns].map(|ns| ns as f64 / 1e9 / asked.count as f64);
    let (n, each) = (count(asked.count), duration(each_s));
    let is_socket = parts.tables.objects.get(asked.object as usize).is_some_and(|object| object.kind == ObjectKind::Socket);
    let through = if is_socket { "socket" } else { "pipe" };
    let sentence = format!(
        "{n} requests to {} through a {through}, one at a time: {n} × {each}, with {} in {} between them.",
        name(answerer),
        duration(between_s),
        name(asker)
    );
    let made = Number { count: Some(asked.count), each_s: Some(each_s), ..number(NumberKind::InSeries, sentence) };
    // The slower program continues, and may have a processor whenever it needs one.
    let longer = if asked.asked_ns > asked.idle_ns { answerer } else { asker };
    let gained_ns = (asked.asked_ns.min(asked.idle_ns) as u64 + parts.seen.did[longer as usize].runqueue_ns) as f64;
    let change = "the next request sent meanwhile";
    let how =
        "keep a few requests in flight: write them before reading the answer, from a second thread or with a count of those in flight";
    Some(made.raised_by(Raise { id: "overlap.stages", change: change.to_owned(), how, gained_ns }))
}
