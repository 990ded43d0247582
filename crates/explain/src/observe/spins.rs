//! Threads that wait by running: they read memory, or yield the processor, until another thread has an answer for them.
//!
//! Nothing records such a wait: the thread computes, like one that works. But it computes whenever a request is in flight, the next request
//! follows each answer immediately, and this lasts from the run's start to its end. A thread that worked meanwhile would sometimes finish
//! early, and sleep, and sometimes late, and delay the next request. A thread whose own request, made meanwhile, may have caused the answer
//! (a worker that submits a job) does not count.
//!
//! Threads of one process wait by running for each other if only one of them sleeps, or is at a disk, at a time ([`super::holds`]).
//!
//! If samples find a thread trying for a lock, it waits for the only other thread of its process ([`super::try_locks`]).
//!
//! A thread that checks repeatedly whether a child has ended waits for the child ([`super::children`]).
//!
//! This also applies to device requests that no call waits for (io_uring, asynchronous I/O): if each follows the previous one immediately,
//! the thread that computes meanwhile waits for them.

use super::children::LookedAtSpeed;
use super::holds::Hold;
use super::lives::Life;
use super::observation::{Observation, ThreadActivity};
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

/// The object of a wait by running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// An answer, on a connection.
    Answer(u32),
    /// A device, by its track, and whether for writes.
    Device(u32, bool),
    /// Something another thread held, until it released it.
    Lock(u32),
    /// A child, until it ended.
    Child(u32),
}

/// A stretch in which a request was in flight without any answer yet, or a device request was in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quiet {
    /// The asking thread.
    pub track: u32,
    /// Start.
    pub start: i64,
    /// Time of the answer's first bytes, or of the device request's completion.
    pub end: i64,
    /// The object of the wait.
    pub of: Awaited,
}

/// The command's threads that wait by running, and what for.
#[derive(Debug, Default)]
pub(crate) struct Spins {
    /// The threads.
    pub tracks: Vec<u32>,
    /// Their waits, by end.
    quiet: Vec<Quiet>,
}

/// A process: machine and number.
type Process = (u32, u32);

impl Spins {
    /// Finds them in a run from `start` to `end`, after a first walk.
    pub(crate) fn of(seen: &Observation, tables: &Tables, lives: &[Life], tried: &[Tried], (start, end): (i64, i64)) -> Option<Spins> {
        let wall_ns = end - start;
        let others = || Spins::for_a_device(seen, tables, wall_ns).or_else(|| Spins::for_a_lock(seen, tables, wall_ns));
        let by_calls =
            || Spins::for_a_child(seen, tables, lives, wall_ns).or_else(|| Spins::for_answers(seen, tables, (start, end))).or_else(others);
        by_calls().or_else(|| Spins::by_tries(seen, tried, wall_ns))
    }

    /// Threads that try for another's lock, and otherwise only run or queue for nine tenths of that time.
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

    /// Threads that check at full speed whether a child has ended, and otherwise only run or queue for nine tenths of that time.
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

    /// Threads of which only one at a time sleeps, or is at a disk: each waited, since its own last turn, for the thread whose turn
    /// preceded its next.
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
            // Its own other requests are a pool's.
            let of_others = || quiet.iter().filter(|q| process(tables, q.track) != wanted);
            let within = |q: &&Quiet| asked.get(asked.partition_point(|at| *at <= q.start)).is_some_and(|at| *at < q.end);
            of_others().filter(within).count() as f64 > quiet.len() as f64 * limits::ASKS_MEANWHILE
        };
        let tracks = running_meanwhile(seen, tables, &quiet, |own| !asks_meanwhile(own));
        (fills && to_the_end && !tracks.is_empty()).then_some(Spins { tracks, quiet })
    }

    /// The device with most requests of one of the command's threads, without calls that move bytes.
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
        // A thread that waits for the device in calls does not wait for it by running.
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

    /// The thread's wait by running at an instant, if any.
    pub(crate) fn at(&self, track: u32, at: i64) -> Option<Quiet> {
        if !self.tracks.contains(&track) {
            return None;
        }
        let next = self.quiet[self.quiet.partition_point(|quiet| quiet.end < at)..].iter().find(|quiet| quiet.is_of(track))?;
        (next.start < at).then_some(*next)
    }

    /// When a thread last received what it waited for by running, at or before an instant.
    pub(crate) fn had(&self, track: u32, at: i64) -> Option<i64> {
        let before = self.quiet[..self.quiet.partition_point(|quiet| quiet.end < at)].iter().rev();
        before.filter(|_| self.tracks.contains(&track)).find(|quiet| quiet.is_of(track)).map(|quiet| quiet.end)
    }
}

impl Quiet {
    /// Whether a thread may have waited for this: any thread of a process for an answer or a device, for a lock or a child only the one
    /// that received it next.
    fn is_of(&self, track: u32) -> bool {
        !matches!(self.of, Awaited::Lock(_) | Awaited::Child(_)) || self.track == track
    }
}

/// Whether a thread ran or queued for nine tenths of a stretch, and the stretch is a tenth of the run or more.
fn does_nothing_else(did: &ThreadActivity, stretch_ns: i64, wall_ns: i64) -> bool {
    let idle_ns = (did.last_end - did.first_start - ran_ns(did).1 as i64).max(0);
    stretch_ns as f64 >= wall_ns as f64 * limits::SPINS_PART && idle_ns as f64 <= stretch_ns as f64 * (1.0 - limits::RUNS_MEANWHILE)
}

/// Times a thread ran, and ran or queued for a processor, in ns.
fn ran_ns(did: &ThreadActivity) -> (u64, u64) {
    let within_ns = (did.last_end - did.first_start).max(0) as u64;
    let ran_ns = did.cpu_ns + did.asked_ns + did.uncovered_ns.min(within_ns);
    (ran_ns, ran_ns + did.runqueue_ns)
}

/// Time that a thread polling from `first` to `last` ran outside its recorded activity, in ns: a thread that does not run waits, and waits
/// are recorded.
fn ran_besides_ns(did: &ThreadActivity, (first, last): (i64, i64)) -> u64 {
    (did.first_start - first).max(0) as u64 + (last - did.last_end).max(0) as u64
}

fn process(tables: &Tables, track: u32) -> Process {
    (tables.actors[track as usize].machine, tables.actors[track as usize].pid)
}

/// Threads of the command's processes that ran, or queued for a processor, for about as long as a request was in flight. Processes that ran
/// for much longer have several threads at work.
fn running_meanwhile(seen: &Observation, tables: &Tables, quiet: &[Quiet], are_wanted: impl Fn(Process) -> bool) -> Vec<u32> {
    // By process: time running, and running or queued.
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

/// Time in which any of them was in progress.
fn together(quiet: &[Quiet]) -> i64 {
    super::overlap::together_ns(quiet.iter().map(|quiet| (quiet.start, quiet.end)).collect())
}
