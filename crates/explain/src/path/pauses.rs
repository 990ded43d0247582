//! Pauses of programs. A runtime's pause in pieces counts as one: an event loop wakes for its own timer and waits on, Go's scheduler passes
//! timers between threads, Tcl sleeps half a second at a time. A pause ends when its program next works.
//!
//! Equal pieces are separate pauses: a program that sleeps 100 ms ten times in a row has slept ten times, and no runtime (except Tcl)
//! divides a timer into equal parts. But a wait for another program (a peer's answer, a lock that another client holds) is one wait, in
//! pieces of any length: the waiter checks in between, and the path goes to the holder and back. Charges stay where each piece lies; only
//! the number and lengths are those of whole pauses.

use crate::limits::path as limits;

/// The facts of a charged pause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paused {
    /// Its process: machine and number.
    pub process: Option<(u32, u32)>,
    /// When the process next acted.
    pub deed: i64,
    /// Its end.
    pub by: Timer,
    /// For a wait for another program: the waiting thread, and since when. The path goes to the holder and back, and all of it is one wait.
    pub wait: Option<(u32, i64)>,
}

/// The end of a pause, or of a piece of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// A sleep called by the program: a pause of its own.
    Sleep,
    /// A sleep of a runtime that divides each sleep into equal parts and a rest: Tcl.
    Slices,
    /// The timeout of a wait for any event.
    Limit,
    /// The action of one peer, or of a lock's holder: the waiter may check in between any number of times.
    Other,
}

/// The pause being assembled, latest piece first.
#[derive(Debug, Default)]
pub(super) struct Pauses(Option<Pause>);

#[derive(Debug)]
struct Pause {
    process: Option<(u32, u32)>,
    by: Timer,
    wait: Option<(u32, i64)>,
    /// Start of the earliest piece so far, and its length.
    start: i64,
    piece_ns: i64,
    /// Time of work on the path since, in ns.
    since_ns: i64,
    /// By entry: its part, in ns.
    parts: Vec<(u32, u64)>,
}

/// A stretch charged as a pause, or as a piece of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    pub entry: u32,
    pub start: i64,
    pub end: i64,
}

/// The part of a whole pause in one entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub entry: u32,
    pub ns: u64,
    /// Length of the pause, if this is its largest part.
    pub whole_ns: Option<u64>,
}

impl Pauses {
    /// Notes a stretch of the path with work.
    pub(super) fn worked(&mut self, ns: i64) {
        if let Some(later) = &mut self.0 {
            later.since_ns += ns;
        }
    }

    /// Notes a pause, or a piece of one; returns the parts of the pause that this completes.
    pub(super) fn piece(&mut self, piece: Stretch, paused: Paused) -> Vec<Part> {
        let ns = piece.end - piece.start;
        if let Some(later) = self.0.as_mut().filter(|later| later.goes_on_from(&piece, &paused)) {
            (later.start, later.piece_ns, later.since_ns, later.wait) = (piece.start, ns, 0, paused.wait);
            match later.parts.iter_mut().find(|(entry, _)| *entry == piece.entry) {
                Some((_, part)) => *part += ns as u64,
                None => later.parts.push((piece.entry, ns as u64)),
            }
            return Vec::new();
        }
        let whole = self.finish();
        let parts = vec![(piece.entry, ns as u64)];
        let Paused { process, by, wait, .. } = paused;
        self.0 = Some(Pause { process, by, wait, start: piece.start, piece_ns: ns, since_ns: 0, parts });
        whole
    }

    /// Returns the parts of the last pause: no more pieces come.
    pub(super) fn finish(&mut self) -> Vec<Part> {
        let parts = self.0.take().map(|pause| pause.parts).unwrap_or_default();
        let whole: u64 = parts.iter().map(|(_, ns)| ns).sum();
        let most = parts.iter().max_by_key(|(_, ns)| *ns).map(|(entry, _)| *entry);
        parts.into_iter().map(|(entry, ns)| Part { entry, ns, whole_ns: (Some(entry) == most).then_some(whole) }).collect()
    }
}

impl Pause {
    /// Whether this continues an earlier pause: its process did next to nothing in between, and the two are not consecutive sleeps.
    fn goes_on_from(&self, piece: &Stretch, paused: &Paused) -> bool {
        if paused.wait.is_some() && paused.wait == self.wait {
            return true;
        }
        let is_idle = paused.deed > self.start && self.since_ns <= limits::BETWEEN_PIECES_NS;
        let same = paused.process.is_some() && paused.process == self.process;
        let ns = piece.end - piece.start;
        let near = limits::ALIKE_NS.min(ns.min(self.piece_ns) / limits::ALIKE_PART);
        let is_piece = match (paused.by, self.by) {
            (Timer::Slices, _) => limits::SLICE_NS.contains(&ns) && self.start - piece.end <= limits::BETWEEN_SLICES_NS,
            (Timer::Sleep, Timer::Sleep) => false,
            (Timer::Other, Timer::Other) => true,
            _ => (ns - self.piece_ns).abs() > near,
        };
        same && is_idle && is_piece
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of pauses, and the longest, in waits given as (start, end, next action), latest last, in ms.
    fn counted(waits: &[(i64, i64, i64)], by: Timer) -> (u64, u64) {
        let mut pauses = Pauses::default();
        let mut parts = Vec::new();
        for &(start, end, deed) in waits.iter().rev() {
            let piece = Stretch { entry: 0, start: start * 1_000_000, end: end * 1_000_000 };
            parts.extend(pauses.piece(piece, Paused { process: Some((0, 1)), deed: deed * 1_000_000, by, wait: None }));
        }
        parts.extend(pauses.finish());
        (parts.len() as u64, parts.iter().filter_map(|part| part.whole_ns).max().unwrap_or(0) / 1_000_000)
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
    fn looks_at_one_peer_are_one_wait_until_something_is_done() {
        assert_eq!(counted(&[(0, 1_000, 3_010), (1_001, 2_001, 3_010), (2_001, 3_000, 3_010)], Timer::Other), (1, 2_999));
        assert_eq!(counted(&[(0, 1_000, 1_000), (1_001, 2_001, 2_001), (2_001, 3_000, 3_010)], Timer::Other), (3, 1_000));
    }

    #[test]
    fn a_wait_whose_end_another_brings_about_is_one_whatever_lies_between() {
        let mut pauses = Pauses::default();
        let piece =
            |start: i64, wait| (Stretch { entry: 0, start, end: start + 10 }, Paused { process: None, deed: 0, by: Timer::Other, wait });
        let mut parts = Vec::new();
        for (piece, paused) in [piece(900, Some((1, 300))), piece(400, Some((1, 300))), piece(200, Some((1, 100)))] {
            parts.extend(pauses.piece(piece, paused));
            pauses.worked(100_000_000);
        }
        parts.extend(pauses.finish());
        assert_eq!(parts.iter().map(|part| part.whole_ns).collect::<Vec<_>>(), [Some(20), Some(10)]);
    }

    #[test]
    fn sleeps_that_a_program_calls_for_are_sleeps_of_their_own() {
        assert_eq!(counted(&[(0, 120, 900), (120, 300, 900)], Timer::Sleep), (2, 180));
    }
}
