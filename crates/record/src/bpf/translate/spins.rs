//! Busy waiting: a thread that asks at full speed whether bytes have come, instead of sleeping until they have.
//!
//! No switch shows it, and a processor that is busy with asking is no reason for anything: what ends the wait is who sends. Three things together show it. The
//! thread ran from where it last moved bytes to where it received some; those were taken as soon as they had come, again and again, which is
//! no accident; and samples of that time are in poll, select, epoll or sched_yield. (What goes on in the program between two such calls is the loop.)

use super::samples::Piece;
use thalweg_trace::{ObjectId, SpanKind};

/// Shorter ones are not looked at: the way from a call to the next.
const LEAST_NS: u64 = 100_000;

/// So soon after they had come, or within this part of the wait, bytes were taken at once.
const PROMPT_NS: u64 = 100_000;
const PROMPT_PART: u64 = 8;

/// What taking them costs at the most, where they were taken at once: the wait ends before.
const TAKING_NS: u64 = 10_000;

/// Of the waits of a thread, so many times as long as others together were those that ended at once.
const PROMPT_TIMES: u64 = 4;

/// So many samples, one of so many, are of asking. A program that works between its calls is met in them much less often.
const LEAST_SAMPLES: u64 = 3;
const SAMPLES_PART: u64 = 12;

/// Stretches that are remembered of a wait that is under way.
const MOST_STRETCHES: usize = 256;

/// EAGAIN, as calls return it.
pub(super) const NOTHING_YET: i64 = -(libc::EAGAIN as i64);

/// What is remembered of a thread's busy waits.
#[derive(Debug, Default)]
pub(crate) struct Spins {
    /// Since when it may wait: when it last moved bytes, or came back from a sleep.
    since_ns: u64,
    /// Where it ran since, of what was recorded as nothing.
    ran: Vec<(u64, u64)>,
    /// Samples since: of asking, and all.
    here: (u64, u64),
    /// The same of all waits that ended at once.
    all: (u64, u64),
    /// How long those were, and others.
    prompt_ns: u64,
    late_ns: u64,
}

impl Spins {
    /// A sample of the thread.
    pub(super) fn sampled(&mut self, is_asking: bool) {
        self.here.0 += u64::from(is_asking);
        self.here.1 += 1;
    }

    /// The thread slept until now.
    pub(super) fn slept(&mut self, until_ns: u64) {
        self.begin(until_ns);
    }

    fn begin(&mut self, at_ns: u64) {
        self.since_ns = at_ns;
        self.ran.clear();
        self.here = (0, 0);
    }

    /// The thread ran from `start_ns` to `end_ns` and moved what `pieces` say, and, if `moved_files`, bytes of files. `came_ns` says when bytes last came to
    /// a connection before an instant. Answers the stretches of busy waits that ended in this run: those before it, and those in it, as pieces of it.
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

    /// When the bytes came that the thread received at `begun_ns`, where it had waited for them, busily.
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

    /// The last stretch of a wait, in the run in which it ended.
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

    /// Ten turns: bytes are sent, and ten milliseconds later some are received, `late_ns` after they came. `asks`: one sample of so many is of asking.
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
