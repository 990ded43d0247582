//! Pauses of programs. What a runtime waits for in pieces is one pause: an event loop wakes for a timer of its own and waits on, Go's scheduler hands the timers
//! from thread to thread, Tcl sleeps half a second at a time. A pause ends when its program next does something for its work.
//!
//! Pieces of a length are no pieces: a program that sleeps 100 ms, ten times in a row, has slept ten times, and no runtime divides a timer into equal parts (but
//! Tcl). What is charged stays where each piece lies. Only the number and the lengths are those of pauses.

use super::ledger::{Entry, Run};
use crate::cause::Cause;
use crate::limits::path as limits;

/// What is known of a pause that was charged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paused {
    /// Whose it was: machine and number.
    pub process: Option<(u32, u32)>,
    /// When the process next did something.
    pub deed: i64,
    /// What ended it.
    pub by: Timer,
}

/// What ends a pause, or a piece of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// A sleep that the program called for: it is a pause of its own.
    Sleep,
    /// A sleep of a runtime that divides each into equal parts and a rest: Tcl.
    Slices,
    /// The time limit of a wait for anything.
    Limit,
}

/// The pause that is being put together, latest piece first.
#[derive(Debug, Default)]
pub(super) struct Pauses(Option<Pause>);

#[derive(Debug)]
struct Pause {
    process: Option<(u32, u32)>,
    by: Timer,
    /// Where the earliest piece so far begins, and how long it is.
    start: i64,
    piece_ns: i64,
    /// For how long anything was done since, on the path.
    since_ns: i64,
    /// By entry: how much of it.
    parts: Vec<(u32, u64)>,
}

impl Pauses {
    /// The path has passed a stretch: adds its length to its entry, or to the pause of which it is a piece.
    pub(super) fn run(&mut self, run: &Run, paused: Option<Paused>, entries: &mut [Entry]) {
        let ns = run.end - run.start;
        let Some(paused) = paused else {
            let entry = &mut entries[run.entry as usize];
            entry.runs.add(ns as u64);
            let queued = matches!(entry.cause, Cause::ClientRunqueue | Cause::ServerRunqueue | Cause::Recorder);
            if let Some(later) = self.0.as_mut().filter(|_| !queued) {
                later.since_ns += ns;
            }
            return;
        };
        match self.0.as_mut().filter(|later| later.goes_on_from(run, &paused)) {
            Some(later) => {
                (later.start, later.piece_ns, later.since_ns) = (run.start, ns, 0);
                match later.parts.iter_mut().find(|(entry, _)| *entry == run.entry) {
                    Some((_, part)) => *part += ns as u64,
                    None => later.parts.push((run.entry, ns as u64)),
                }
            }
            None => {
                self.finish(entries);
                let parts = vec![(run.entry, ns as u64)];
                self.0 = Some(Pause { process: paused.process, by: paused.by, start: run.start, piece_ns: ns, since_ns: 0, parts });
            }
        }
    }

    /// No more pieces come: each entry gets its part, and the one with most of it the pause.
    pub(super) fn finish(&mut self, entries: &mut [Entry]) {
        let Some(pause) = self.0.take() else { return };
        let whole: u64 = pause.parts.iter().map(|(_, ns)| ns).sum();
        let most = pause.parts.iter().max_by_key(|(_, ns)| *ns).map(|(entry, _)| *entry);
        for (entry, ns) in pause.parts {
            let runs = &mut entries[entry as usize].runs;
            if Some(entry) == most {
                runs.add_part(ns, whole);
            } else {
                runs.total_ns += ns;
            }
        }
    }
}

impl Pause {
    /// Whether this is the rest of an earlier pause: its process did next to nothing in between, and the two are no sleeps of a row.
    fn goes_on_from(&self, run: &Run, paused: &Paused) -> bool {
        let is_idle = paused.deed > self.start && self.since_ns <= limits::BETWEEN_PIECES_NS;
        let same = paused.process.is_some() && paused.process == self.process;
        let ns = run.end - run.start;
        let near = limits::ALIKE_NS.min(ns.min(self.piece_ns) / limits::ALIKE_PART);
        let is_piece = match (paused.by, self.by) {
            (Timer::Slices, _) => limits::SLICE_NS.contains(&ns) && self.start - run.end <= limits::BETWEEN_SLICES_NS,
            (Timer::Sleep, Timer::Sleep) => false,
            _ => (ns - self.piece_ns).abs() > near,
        };
        same && is_idle && is_piece
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::index::NONE;
    use crate::observe::quantile::Lengths;
    use crate::waits::place::Place;

    /// How many pauses there are, and the longest, of waits given as (start, end, when something was done next), latest last, in ms.
    fn counted(waits: &[(i64, i64, i64)], by: Timer) -> (u64, u64) {
        let (runs, lists) = (Lengths::default(), (Vec::new(), Vec::new(), Vec::new()));
        let place = Place::Hole { label: 0 };
        let (holders, waiters, slept) = lists;
        let mut entries = [Entry { cause: Cause::ClientThink, place, inferred: false, runs, holders, waiters, slept }];
        let mut pauses = Pauses::default();
        for &(start, end, deed) in waits.iter().rev() {
            let run = Run { start: start * 1_000_000, end: end * 1_000_000, entry: 0, track: NONE };
            pauses.run(&run, Some(Paused { process: Some((0, 1)), deed: deed * 1_000_000, by }), &mut entries);
        }
        pauses.finish(&mut entries);
        (entries[0].runs.count, entries[0].runs.longest_ns / 1_000_000)
    }

    #[test]
    fn pieces_of_one_timer_are_one_pause() {
        assert_eq!(counted(&[(0, 197, 1_010), (198, 199, 1_010), (199, 1_000, 1_010)], Timer::Limit), (1, 999));
    }

    #[test]
    fn a_deed_ends_a_pause() {
        assert_eq!(counted(&[(0, 197, 198), (198, 1_000, 1_010)], Timer::Limit), (2, 802));
    }

    #[test]
    fn sleeps_of_one_length_are_sleeps_of_their_own() {
        assert_eq!(counted(&[(0, 100, 900), (101, 201, 900), (202, 302, 900)], Timer::Limit), (3, 100));
    }

    #[test]
    fn half_seconds_of_tcl_are_slices_of_one_sleep() {
        assert_eq!(counted(&[(0, 500, 2_000), (500, 1_000, 2_000), (1_000, 1_200, 2_000)], Timer::Slices), (1, 1_200));
        assert_eq!(counted(&[(0, 500, 2_000), (500, 750, 2_000), (751, 1_251, 2_000), (1_251, 1_501, 2_000)], Timer::Slices), (2, 750));
    }

    #[test]
    fn sleeps_that_a_program_calls_for_are_sleeps_of_their_own() {
        assert_eq!(counted(&[(0, 120, 900), (120, 300, 900)], Timer::Sleep), (2, 180));
    }
}
