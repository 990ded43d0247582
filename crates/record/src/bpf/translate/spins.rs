//! Busy waiting: a thread that polls for bytes at full speed instead of sleeping until they come.
//!
//! No context switch shows this, and polling is not a reason for time: what ends the wait is the sender. Three facts
//! together show it. The thread ran from where it last moved bytes to where it received some; those were taken as
//! soon as they had come, repeatedly, which is no accident; and samples of that time are in poll, select, epoll or
//! sched_yield. (The program's own code between two such calls is the polling loop.)

use super::samples::Piece;
use thalweg_trace::{ObjectId, SpanKind};

/// Minimum busy wait: shorter ones are the way from one call to the next.
const LEAST_NS: u64 = 100_000;

/// Bytes taken within this time of their arrival, or within this part of the wait, were taken promptly.
const PROMPT_NS: u64 = 100_000;
const PROMPT_PART: u64 = 8;

/// Maximum cost of taking the bytes promptly: the wait ends before it.
const TAKING_NS: u64 = 10_000;

/// A thread's promptly ended waits must be this many times as long as its others together.
const PROMPT_TIMES: u64 = 4;

/// Minimum polling samples, and their minimum share of all samples. A program that works between its calls has a much
/// lower share.
const LEAST_SAMPLES: u64 = 3;
const SAMPLES_PART: u64 = 12;

/// Maximum intervals remembered of a wait in progress.
const MOST_STRETCHES: usize = 256;

/// EAGAIN, as calls return it.
pub(super) const NOTHING_YET: i64 = -(libc::EAGAIN as i64);

/// The state of a thread's busy waits.
#[derive(Debug, Default)]
pub(crate) struct Spins {
    /// Possible start of the wait: when it last moved bytes, or came back from a sleep.
    since_ns: u64,
    /// Intervals since then in which it ran and nothing was recorded.
    ran: Vec<(u64, u64)>,
    /// Samples since then: polling, and all.
    here: (u64, u64),
    /// Samples of all promptly ended waits.
    all: (u64, u64),
    /// Total lengths of those waits, and of others.
    prompt_ns: u64,
    late_ns: u64,
}

impl Spins {
    /// Notes a sample of the thread.
    pub(super) fn sampled(&mut self, is_asking: bool) {
        self.here.0 += u64::from(is_asking);
        self.here.1 += 1;
    }

    /// Notes that the thread slept until now.
    pub(super) fn slept(&mut self, until_ns: u64) {
        self.begin(until_ns);
    }

    fn begin(&mut self, at_ns: u64) {
        self.since_ns = at_ns;
        self.ran.clear();
        self.here = (0, 0);
    }

    /// Handles a run from `start_ns` to `end_ns` that moved `pieces` and, if `moved_files`, bytes of files. `came_ns`
    /// says when bytes last came to a connection before an instant. Returns the intervals of busy waits that ended in
    /// this run: those before it, and those in it, as pieces of it.
    pub(super) fn ran(
        &mut self,
        (start_ns, end_ns): (u64, u64),
        pieces: &[Piece],
        moved_files: bool,
        came_ns: impl Fn(ObjectId, u64) -> Option<u64>,
    ) -> (Vec<(u64, u64, ObjectId)>, Vec<Piece>) {
        let (mut before, mut within) = (Vec::new(), Vec::new());
        let mut moves: Vec<&Piece> = pieces.iter().filter(|piece| piece.bytes > 0 && piece.ended_ns.is_some()).collect();
        moves.sort_by_key(|piece| piece.ended_ns);
        for piece in moves {
            let ended_ns = piece.ended_ns.unwrap_or(end_ns);
            if let (SpanKind::NetReceive, Some(begun_ns), Some(object)) = (piece.kind, piece.begun_ns, piece.object)
                && let Some(came_ns) = self.waited(start_ns, begun_ns, came_ns(object, begun_ns))
            {
                before.extend(self.ran.iter().map(|&(from, to)| (from, to, object)));
                within.extend(self.asked(start_ns, came_ns.max(begun_ns.saturating_sub(TAKING_NS)), object));
            }
            self.begin(ended_ns);
        }
        if moved_files {
            self.begin(end_ns);
        } else if self.ran.len() < MOST_STRETCHES {
            let from = self.since_ns.max(start_ns);
            self.ran.extend((from < end_ns).then_some((from, end_ns)));
        } else {
            self.begin(end_ns);
        }
        (before, within)
    }

    /// Returns when the bytes came that the thread received at `begun_ns`, if it had waited for them busily.
    fn waited(&mut self, start_ns: u64, begun_ns: u64, came_ns: Option<u64>) -> Option<u64> {
        let from_ns = self.since_ns.max(start_ns).min(begun_ns);
        let first_ns = self.ran.first().map_or(from_ns, |first| first.0);
        let length = begun_ns - from_ns + self.ran.iter().map(|(from, to)| to - from).sum::<u64>();
        if length < LEAST_NS {
            return None;
        }
        let is_prompt = |came: &u64| *came > first_ns && begun_ns.saturating_sub(*came) <= PROMPT_NS.max(length / PROMPT_PART);
        let Some(came_ns) = came_ns.filter(is_prompt) else {
            self.late_ns += length;
            return None;
        };
        self.prompt_ns += length;
        self.all = (self.all.0 + self.here.0, self.all.1 + self.here.1);
        let asks = self.all.0 >= LEAST_SAMPLES && self.all.0 * SAMPLES_PART >= self.all.1;
        (asks && self.prompt_ns >= self.late_ns.saturating_mul(PROMPT_TIMES)).then_some(came_ns)
    }

    /// Returns the last interval of a wait, in the run in which it ended.
    fn asked(&self, start_ns: u64, until_ns: u64, object: ObjectId) -> Option<Piece> {
        let from_ns = self.since_ns.max(start_ns);
        if until_ns <= from_ns {
            return None;
        }
        Some(Piece {
            kind: SpanKind::NetReceive,
            object: Some(object),
            calls: 1,
            bytes: 0,
            offset_bytes: None,
            result: Some(NOTHING_YET),
            want_ns: until_ns - from_ns,
            begun_ns: None,
            ended_ns: Some(until_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_trace::{HostId, IdSpace};

    fn object() -> ObjectId {
        crate::bpf::translate::output::Output::new(HostId(0), IdSpace(1)).object_id()
    }

    fn piece(kind: SpanKind, at_ns: u64, object: ObjectId) -> Piece {
        let (begun_ns, ended_ns) = (Some(at_ns), Some(at_ns + 1_000));
        Piece { kind, object: Some(object), calls: 1, bytes: 100, offset_bytes: None, result: None, want_ns: 0, begun_ns, ended_ns }
    }

    /// Ten rounds: bytes are sent, and ten milliseconds later some are received, `late_ns` after they came. One
    /// sample in `asks` is polling.
    fn spun_ns(late_ns: u64, asks: u64) -> u64 {
        let (mut spins, object, mut spun) = (Spins::default(), object(), 0);
        for turn in 0..10 {
            let (from, mid, to) = (turn * 10_000_000, turn * 10_000_000 + 6_000_000, turn * 10_000_000 + 9_990_000);
            spins.ran((from, from + 2_000), &[piece(SpanKind::NetSend, from + 1_000, object)], false, |_, _| None);
            (0..9).for_each(|k| spins.sampled((turn * 9 + k) % asks == 0));
            // A sample in between ends a part of the run.
            assert_eq!(spins.ran((from + 2_000, mid), &[], false, |_, _| None), (Vec::new(), Vec::new()));
            let (before, within) =
                spins.ran((mid, to + 5_000), &[piece(SpanKind::NetReceive, to, object)], false, |_, by| Some(by - late_ns));
            spun += before.iter().map(|(from, to, _)| to - from).sum::<u64>() + within.iter().map(|piece| piece.want_ns).sum::<u64>();
        }
        spun
    }

    #[test]
    fn asking_again_and_again_until_bytes_come_is_a_wait() {
        assert!(spun_ns(20_000, 3) > 90_000_000, "a third of the samples are of asking");
        assert_eq!(spun_ns(20_000, 30), 0, "a program that works, and asks now and then");
        assert_eq!(spun_ns(5_000_000, 3), 0, "the bytes had come long before: it did something else");
    }

    #[test]
    fn a_thread_that_sleeps_or_works_on_files_does_not_wait_busily() {
        let (mut spins, object) = (Spins::default(), object());
        for turn in 0..10 {
            let from = turn * 10_000_000;
            (0..9).for_each(|_| spins.sampled(true));
            spins.ran((from, from + 5_000_000), &[], turn % 2 == 0, |_, _| None);
            if turn % 2 == 1 {
                spins.slept(from + 9_980_000);
            } else {
                spins.ran((from + 5_000_000, from + 9_980_000), &[], true, |_, _| None);
            }
            let received = piece(SpanKind::NetReceive, from + 9_990_000, object);
            let (before, within) = spins.ran((from + 9_980_000, from + 10_000_000), &[received], false, |_, by| Some(by - 5_000));
            assert!(before.is_empty() && within.is_empty(), "{turn}");
        }
    }
}
