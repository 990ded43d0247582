//! Threads that wait by running: they look at memory, or ask for a processor's next turn, until another thread has an answer for them.
//!
//! Nothing records such a wait: the thread computes, as one that works does. What shows is that it computes whenever a question is under way, that the next
//! question follows each answer at once, and that this goes on from the run's beginning to its end. A thread that worked meanwhile would sometimes be done
//! earlier, and sleep, and sometimes later, and hold up the next question. Nor is it one whose own question, asked meanwhile, may be what brought the
//! answer (a worker that hands in a job).
//!
//! Threads of one process wait by running for each other where only one of them sleeps, or is at a disk, at a time ([`super::holds`]).
//!
//! Where samples find a thread trying for a lock, it waits for the only other thread of its process ([`super::try_locks`]).
//!
//! A thread that asks again and again whether a child has ended waits for the child ([`super::children`]).
//!
//! The same holds of requests to a device that no call waits for (io_uring, asynchronous I/O): where each follows the last one at once, the thread that
//! computes meanwhile waits for them.

use super::children::LookedAtSpeed;
use super::holds::Hold;
use super::lives::Life;
use super::observation::{Did, Observation};
use super::questions::{Question, UnderWay};
use super::served::Request;
use super::tables::{Actor, Tables};
use super::try_locks::Tried;
use crate::cause::{Cause, End};
use crate::limits::observe as limits;
use crate::path::ledger::Ledger;
use crate::waits::place::Place;
use std::collections::HashMap;
use thalweg_trace::ObjectKind;

/// What a thread waits for by running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// An answer, on a connection.
    Answer(u32),
    /// A device, by its track; and whether it writes.
    Device(u32, bool),
    /// What another thread had, until it let go of it.
    Lock(u32),
    /// A child, until it ended.
    Child(u32),
}

/// A stretch in which a question was under way and nothing had come of its answer, or a request to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quiet {
    /// Which thread asked.
    pub track: u32,
    /// When.
    pub start: i64,
    /// When the first bytes of the answer came, or the request was done.
    pub end: i64,
    /// Whom.
    pub of: Awaited,
}

/// The command's threads that wait by running, and for what.
#[derive(Debug, Default)]
pub(crate) struct Spins {
    /// The threads.
    pub tracks: Vec<u32>,
    /// What they wait for, in order of the ends.
    quiet: Vec<Quiet>,
}

/// A process: machine and number.
type Process = (u32, u32);

impl Spins {
    /// Of a run from `start` to `end` that was walked once.
    pub(crate) fn of(seen: &Observation, tables: &Tables, lives: &[Life], tried: &[Tried], (start, end): (i64, i64)) -> Option<Spins> {
        let wall_ns = end - start;
        let others = || Spins::for_a_device(seen, tables, wall_ns).or_else(|| Spins::for_a_lock(seen, tables, wall_ns));
        let by_calls =
            || Spins::for_a_child(seen, tables, lives, wall_ns).or_else(|| Spins::for_answers(seen, tables, (start, end))).or_else(others);
        by_calls().or_else(|| Spins::by_tries(seen, tried, wall_ns))
    }

    /// Of threads that try for a lock that another has, and do nothing else but run or queue in nine tenths of that time.
    fn by_tries(seen: &Observation, tried: &[Tried], wall_ns: i64) -> Option<Spins> {
        let waits = |tried: &&Tried| does_nothing_else(&seen.did[tried.track as usize], tried.last - tried.first, wall_ns);
        let mut quiet: Vec<Quiet> = tried
            .iter()
            .filter(waits)
            .map(|tried| Quiet { track: tried.track, start: tried.first, end: tried.last, of: Awaited::Lock(tried.holder) })
            .collect();
        quiet.sort_unstable_by_key(|quiet| quiet.end);
        let tracks: Vec<u32> = quiet.iter().map(|quiet| quiet.track).collect();
        (!quiet.is_empty()).then_some(Spins { tracks, quiet })
    }

    /// Of threads that ask at full speed whether a child has ended, and do nothing else but run or queue in nine tenths of that time.
    fn for_a_child(seen: &Observation, tables: &Tables, lives: &[Life], wall_ns: i64) -> Option<Spins> {
        let waits = |looked: &LookedAtSpeed| does_nothing_else(&seen.did[looked.track as usize], looked.ended - looked.first, wall_ns);
        let looked = seen.children.at_speed(tables, lives).into_iter().filter(waits);
        let quiet: Vec<Quiet> = looked
            .map(|looked| Quiet { track: looked.track, start: looked.first, end: looked.ended, of: Awaited::Child(looked.child) })
            .collect();
        let mut tracks: Vec<u32> = quiet.iter().map(|quiet| quiet.track).collect();
        tracks.sort_unstable();
        tracks.dedup();
        (!quiet.is_empty()).then_some(Spins { tracks, quiet })
    }

    /// Of threads that let only one of them sleep, or be at a disk, at a time: each waited since its own last turn for the thread that had the one before its next.
    fn for_a_lock(seen: &Observation, tables: &Tables, wall_ns: i64) -> Option<Spins> {
        let ran = |track: u32| ran_ns(&seen.did[track as usize]);
        let turns = seen.holds.in_turn(tables, wall_ns, ran);
        let mut had: HashMap<u32, i64> = HashMap::new();
        let mut quiet = Vec::new();
        for (before, turn) in turns.iter().zip(turns.iter().skip(1)) {
            let Hold { track, start, end } = *turn;
            had.entry(before.track).and_modify(|at| *at = before.end.max(*at)).or_insert(before.end);
            let since = had.get(&track).copied().unwrap_or(seen.did[track as usize].first_start);
            if before.end <= start && since < before.end {
                quiet.push(Quiet { track, start: since, end: before.end, of: Awaited::Lock(before.track) });
            }
            had.insert(track, end);
        }
        quiet.sort_unstable_by_key(|quiet| quiet.end);
        let mut tracks: Vec<u32> = had.into_keys().collect();
        tracks.sort_unstable();
        (!quiet.is_empty()).then_some(Spins { tracks, quiet })
    }

    /// Whether the walk charged running that may have been waiting.
    pub(crate) fn are_charged(ledger: &Ledger, wall_ns: i64) -> bool {
        let charged = ledger.entries.iter().filter(|entry| {
            let runs = matches!(entry.cause, Cause::ClientCpu | Cause::ClientRunqueue);
            runs && matches!(entry.place, Place::Thread { .. })
        });
        let runs_ns: u64 = charged.map(|entry| entry.runs.total_ns).sum();
        runs_ns as f64 >= wall_ns as f64 * limits::SPINS_PART
    }

    fn for_answers(seen: &Observation, tables: &Tables, (start, end): (i64, i64)) -> Option<Spins> {
        let wall_ns = end - start;
        seen.questions.waited_for(End::Client, tables, wall_ns).filter(UnderWay::is_held)?;
        let of_question = |q: &Question| Quiet { track: q.track, start: q.start, end: q.first, of: Awaited::Answer(q.connection) };
        let mut quiet: Vec<Quiet> = seen.questions.over_connections().map(of_question).collect();
        quiet.sort_unstable_by_key(|quiet| quiet.end);
        let (quiet_ns, last) = (together(&quiet), quiet.last()?.end);
        let fills = quiet_ns as f64 >= wall_ns as f64 * limits::QUIET_PART;
        let to_the_end = (end - last) as f64 <= wall_ns as f64 * (1.0 - limits::QUIET_PART);
        let asks_meanwhile = |wanted: Process| {
            let mut asked: Vec<i64> = quiet.iter().filter(|q| process(tables, q.track) == wanted).map(|q| q.start).collect();
            asked.sort_unstable();
            // (Its own other questions are a pool's.)
            let of_others = || quiet.iter().filter(|q| process(tables, q.track) != wanted);
            let within = |q: &&Quiet| asked.get(asked.partition_point(|at| *at <= q.start)).is_some_and(|at| *at < q.end);
            of_others().filter(within).count() as f64 > quiet.len() as f64 * limits::ASKS_MEANWHILE
        };
        let tracks = running_meanwhile(seen, tables, &quiet, |own| !asks_meanwhile(own));
        (fills && to_the_end && !tracks.is_empty()).then_some(Spins { tracks, quiet })
    }

    /// Of the device that most was asked of by one of the command's threads, without calls that move bytes.
    fn for_a_device(seen: &Observation, tables: &Tables, wall_ns: i64) -> Option<Spins> {
        let of_client = |track: u32| tables.actors.get(track as usize).is_some_and(|actor| actor.thread && actor.end == End::Client);
        let asked = seen.devices.iter().map(|(&device, did)| {
            let requests = did.of_whom.iter().filter(|request| of_client(request.by));
            let of = |request: &Request| Awaited::Device(device, request.writes);
            let quiet = requests.map(|r| Quiet { track: r.by, start: r.start, end: r.end, of: of(r) });
            (did.read_bytes + did.written_bytes, quiet.collect::<Vec<Quiet>>())
        });
        let (device_bytes, mut quiet) = asked.max_by_key(|(_, quiet)| quiet.len())?;
        quiet.sort_unstable_by_key(|quiet| quiet.end);
        let by_calls: u64 = seen.moved[End::Client as usize]
            .iter()
            .enumerate()
            .filter(|(object, _)| tables.objects[*object].kind == ObjectKind::File)
            .map(|(_, ways)| ways[0].bytes + ways[1].bytes)
            .sum();
        if quiet.len() < limits::MANY_REQUESTS || by_calls * 2 > device_bytes {
            return None;
        }
        let (quiet_ns, sum_ns) = (together(&quiet), quiet.iter().map(|q| q.end - q.start).sum::<i64>());
        let mut gaps: Vec<i64> = quiet.windows(2).map(|two| (two[1].start - two[0].end).max(0)).collect();
        gaps.sort_unstable();
        let follow_at_once = gaps[gaps.len() / 2] as f64 <= sum_ns as f64 / quiet.len() as f64 * limits::FOLLOWS_AT_ONCE;
        // Who waits for the device in calls does not wait for it by running.
        let blocks = |track: &u32| seen.did[*track as usize].file_ns as f64 >= quiet_ns as f64 * limits::BLOCKED_MEANWHILE;
        let mut tracks = running_meanwhile(seen, tables, &quiet, |_| true);
        tracks.retain(|track| !blocks(track));
        let queued_ns = tracks.iter().map(|&track| seen.did[track as usize].runqueue_ns).max().unwrap_or(0) as i64;
        let fills = quiet_ns as f64 >= (wall_ns - queued_ns) as f64 * limits::QUIET_PART;
        (follow_at_once && fills && !tracks.is_empty()).then_some(Spins { tracks, quiet })
    }

    /// Whether they wait for each other.
    pub(crate) fn are_for_a_lock(&self) -> bool {
        self.quiet.first().is_some_and(|quiet| matches!(quiet.of, Awaited::Lock(_)))
    }

    /// What a thread waits for at an instant, if it waits by running.
    pub(crate) fn at(&self, track: u32, at: i64) -> Option<Quiet> {
        if !self.tracks.contains(&track) {
            return None;
        }
        let next = self.quiet[self.quiet.partition_point(|quiet| quiet.end < at)..].iter().find(|quiet| quiet.is_of(track))?;
        (next.start < at).then_some(*next)
    }

    /// When a thread last had what it waited for by running, at an instant or before.
    pub(crate) fn had(&self, track: u32, at: i64) -> Option<i64> {
        let before = self.quiet[..self.quiet.partition_point(|quiet| quiet.end < at)].iter().rev();
        before.filter(|_| self.tracks.contains(&track)).find(|quiet| quiet.is_of(track)).map(|quiet| quiet.end)
    }
}

impl Quiet {
    /// Whether a thread may have waited for this: any of a process for an answer or a device, for a lock or a child only the one that had it next.
    fn is_of(&self, track: u32) -> bool {
        !matches!(self.of, Awaited::Lock(_) | Awaited::Child(_)) || self.track == track
    }
}

/// Whether a thread ran or queued for nine tenths of a stretch, and the stretch is a tenth of the run or more.
fn does_nothing_else(did: &Did, stretch_ns: i64, wall_ns: i64) -> bool {
    let idle_ns = (did.last_end - did.first_start - ran_ns(did).1 as i64).max(0);
    stretch_ns as f64 >= wall_ns as f64 * limits::SPINS_PART && idle_ns as f64 <= stretch_ns as f64 * (1.0 - limits::RUNS_MEANWHILE)
}

/// For how long a thread ran, and for how long it ran or queued for a processor.
fn ran_ns(did: &Did) -> (u64, u64) {
    let within_ns = (did.last_end - did.first_start).max(0) as u64;
    let ran_ns = did.cpu_ns + did.asked_ns + did.uncovered_ns.min(within_ns);
    (ran_ns, ran_ns + did.runqueue_ns)
}

/// For how long a thread that asked from `first` to `last` ran before all else that is recorded of it, and behind: what does not run waits, and waits are
/// recorded.
fn ran_besides_ns(did: &Did, (first, last): (i64, i64)) -> u64 {
    (did.first_start - first).max(0) as u64 + (last - did.last_end).max(0) as u64
}

fn process(tables: &Tables, track: u32) -> Process {
    (tables.actors[track as usize].machine, tables.actors[track as usize].pid)
}

/// Threads of the command's processes that ran, or queued for a processor, for about as long as something was under way. Those of processes that ran for much
/// longer have several at work.
fn running_meanwhile(seen: &Observation, tables: &Tables, quiet: &[Quiet], are_wanted: impl Fn(Process) -> bool) -> Vec<u32> {
    // By process: how long it ran, and how long it ran or queued.
    let mut ran: HashMap<Process, (u64, u64)> = HashMap::new();
    let is_own = |actor: &Actor| actor.thread && actor.end == End::Client;
    let quiet_ns = together(quiet);
    let mut asked: HashMap<u32, (i64, i64)> = HashMap::new();
    for one in quiet {
        let extent = asked.entry(one.track).or_insert((one.start, one.end));
        *extent = (extent.0.min(one.start), extent.1.max(one.end));
    }
    for (track, (actor, did)) in tables.actors.iter().zip(&seen.did).enumerate().filter(|(_, (actor, _))| is_own(actor)) {
        let besides_ns = asked.get(&(track as u32)).map_or(0, |&extent| ran_besides_ns(did, extent));
        let (ran_ns, wanted_ns) = ran_ns(did);
        let sums = ran.entry((actor.machine, actor.pid)).or_default();
        *sums = (sums.0 + ran_ns + besides_ns, sums.1 + wanted_ns + besides_ns);
    }
    let (least, most) = (quiet_ns as f64 * limits::RUNS_MEANWHILE, quiet_ns as f64 * limits::RUNS_ALONE);
    ran.retain(|own, (ran, wanted)| *ran as f64 <= most && *wanted as f64 >= least && are_wanted(*own));
    let tracks = 0..tables.actors.len() as u32;
    tracks.filter(|&track| is_own(&tables.actors[track as usize]) && ran.contains_key(&process(tables, track))).collect()
}

/// For how long any of them was under way.
fn together(quiet: &[Quiet]) -> i64 {
    super::overlap::together_ns(quiet.iter().map(|quiet| (quiet.start, quiet.end)).collect())
}
