//! Two alternating stages: what overlapping them would gain, by arithmetic, and which would then limit.

use super::super::about;
use super::super::figures::device;
use super::super::groups::Group;
use super::super::of::Of;
use super::raise::Behind;
use super::run::Run;
use super::words::{capital, number};
use crate::cause::Cause;
use crate::document::{Number, NumberKind};
use crate::facts::raise::Raise;
use crate::limits::numbers as limits;
use crate::path::ledger;
use crate::waits::place::{Place, What};
use thalweg_base::numbers::{count, duration};

/// The name of a stage that moves data or works on it; `None` for other causes.
fn stage(cause: Cause) -> Option<&'static str> {
    use Cause as C;
    Some(match cause {
        C::ClientRead => "reading",
        C::ClientWrite | C::ClientSync => "writing",
        C::ClientCpu => "computing",
        C::NetworkBandwidth => "moving data over the network",
        C::ServerRead => "reading at the server",
        C::ServerWrite | C::ServerSync => "writing at the server",
        C::ServerCpu => "computing at the server",
        C::ServerThink | C::ServerUnknown | C::NetworkLatency => "waiting for answers",
        _ => return None,
    })
}

/// The two largest stages, if the path alternates between them.
pub(super) fn find(run: &Run<'_>, groups: &[Group<'_>]) -> Option<Behind> {
    use Cause as C;
    // In a run about requests or files, each step waits for the previous one's result.
    let of = run.of;
    let bytes = about::of_interest(of);
    let mut stages = groups.iter().filter(|g| g.share >= limits::STAGE_SHARE).filter_map(|g| Some((g, stage(g.cause)?)));
    let ((one, first), (other, second)) = (stages.next()?, stages.next()?);
    // Packets are in transit at each of their carriers.
    let carries = |group: &Group<'_>| matches!(group.largest.place, Place::Thread { what: What::Carrying, .. });
    if carries(one) || carries(other) {
        return None;
    }
    // Except for computing between answers, which may be for earlier answers.
    let asks = |group: &Group<'_>| matches!(group.cause, C::ServerThink | C::ServerUnknown | C::NetworkLatency);
    let computes = |group: &Group<'_>| group.cause == C::ClientCpu;
    let between_answers = asks(one) && computes(other) || asks(other) && computes(one);
    if asks(one) && asks(other) || (asks(one) || asks(other)) && !between_answers {
        return None;
    }
    if !between_answers && (bytes < limits::LEAST_BYTES || about::requests(of, bytes).is_some() || run.items.is_some()) {
        return None;
    }
    let alternation = Alternation::of(&of.parts.ledger.path, one, other);
    if alternation.turns < limits::LEAST_ALTERNATIONS {
        return None;
    }
    let (most_s, least_s) = (one.ns as f64 / 1e9, other.ns as f64 / 1e9);
    let left_s = carried_least_s(of, one, other).map_or(f64::INFINITY, |least_s| alternation.within_s() - least_s);
    let gained_s = alternation.both_s().min(left_s);
    if gained_s < least_s * limits::OVERLAPPED {
        return None;
    }
    let sentence = format!(
        "{} ({}) and {second} ({}) take turns, {} times: overlapped, {} less, and {first} would limit.",
        capital(first),
        duration(most_s),
        duration(least_s),
        count(alternation.turns / 2),
        duration(gained_s)
    );
    let made = Number { count: Some(alternation.turns / 2), each_s: Some(gained_s), ..number(NumberKind::InSeries, sentence) };
    // One device that reads and writes gains nothing from overlap.
    let same_device = one.device().is_some() && one.device() == other.device();
    let spare_ns = one.device().filter(|_| same_device).and_then(|name| device(of, name)).map(|(_, did)| {
        let busy_ns = did.all.clone().finish().busy_ns as f64;
        (of.parts.wall_s() * 1e9 - busy_ns).max(0.0)
    });
    // Calls that move the data belong to the stage that waits for it, and neither stage becomes shorter than half of both.
    let computing = [one, other].into_iter().find(|group| group.cause == C::ClientCpu);
    let in_calls_ns = computing.map_or(0.0, |group| {
        let moves = |class: &str| matches!(class, "read" | "write" | "send" | "receive" | "sync" | "sync.write");
        group.ns as f64 * of.parts.around.part_sampled(&group.members, moves)
    });
    let half_ns = (one.ns + other.ns) as f64 / 2.0;
    let gained_ns = (gained_s * 1e9 + in_calls_ns).min(half_ns).min(spare_ns.unwrap_or(f64::INFINITY));
    let change = format!("{first} while the next is {}", being(other.cause));
    let how = "work on one part while the next arrives: a second thread, asynchronous I/O, reading ahead; between two programs a buffer (mbuffer)";
    Some(made.raised_by(Raise { id: "overlap.stages", change, how, gained_ns }))
}

/// How two stages alternated.
#[derive(Debug, Default)]
struct Alternation {
    /// How often the path went from one to the other.
    turns: u64,
    /// Time of each from the first alternation to the last, in nanoseconds: before (a program's start) and after, there is nothing to
    /// overlap with.
    each_ns: [i64; 2],
    /// Times of the first and the last alternation.
    within: Option<(i64, i64)>,
}

impl Alternation {
    fn of(path: &[ledger::Run], one: &Group<'_>, other: &Group<'_>) -> Alternation {
        let mut found = Alternation::default();
        let (mut last, mut since) = (None, [0, 0]);
        for run in path {
            let now = match (one.has(run.entry), other.has(run.entry)) {
                (true, _) => 0,
                (_, true) => 1,
                _ => continue,
            };
            if last.is_some_and(|last| last != now) {
                found.turns += 1;
                // Time since the last alternation lies between two.
                if let Some((_, to)) = &mut found.within {
                    found.each_ns.iter_mut().zip(since).for_each(|(sum, ns)| *sum += ns);
                    *to = run.start;
                } else {
                    found.within = Some((run.start, run.start));
                }
                since = [0, 0];
            }
            since[now] += run.end - run.start;
            last = Some(now);
        }
        found
    }

    /// Most time both can overlap, in seconds.
    fn both_s(&self) -> f64 {
        self.each_ns[0].min(self.each_ns[1]) as f64 / 1e9
    }

    /// Time from the first alternation to the last, in seconds.
    fn within_s(&self) -> f64 {
        self.within.map_or(0.0, |(from, to)| (to - from) as f64 / 1e9)
    }
}

/// Least time, in seconds, for the bytes that the two stages move: over a link that still drains what was sent while the next is read, or
/// at a disk limit, which allows a burst after a pause. To that extent the stages overlap already.
fn carried_least_s(of: &Of<'_>, one: &Group<'_>, other: &Group<'_>) -> Option<f64> {
    let on_network = [one, other].iter().any(|group| group.cause == Cause::NetworkBandwidth);
    let link = of.parts.on_wire.sustained().filter(|_| on_network).map(|full| full.least_ns() / 1e9);
    let limited = [one, other].into_iter().filter_map(|group| of.parts.around.limits.least_s(group.device()?));
    link.into_iter().chain(limited).reduce(f64::max)
}

/// The activity on the next part meanwhile.
fn being(cause: Cause) -> &'static str {
    use Cause as C;
    match cause {
        C::ClientRead | C::ServerRead => "read",
        C::ClientWrite | C::ClientSync | C::ServerWrite | C::ServerSync => "written",
        C::NetworkBandwidth => "on its way",
        C::ServerThink | C::ServerUnknown | C::NetworkLatency => "asked for",
        _ => "worked on",
    }
}
