//! Two programs that take turns because the pipe between them is small: one writes a burst and must wait until the other has processed most
//! of it, and the other then waits for the next burst.

use crate::facts::Parts;
use crate::limits::assemble as limits;
use crate::observe::pipes::Joined;

impl Parts<'_> {
    /// The two programs, and how often the critical path alternated between them.
    pub(crate) fn taking_turns_at_a_pipe(&self) -> Option<(Joined, u64)> {
        let joined = self.seen.pipes.joined(self.tables)?;
        let machine = self.tables.actors.get(joined.writer.1 as usize)?.machine;
        let mut stretches: Vec<(usize, i64)> = Vec::new();
        for run in &self.ledger.path {
            let Some(actor) = self.tables.actors.get(run.track as usize).filter(|actor| actor.machine == machine) else { continue };
            let Some(who) = [joined.writer.0, joined.reader.0].iter().position(|pid| *pid == actor.pid) else { continue };
            match stretches.last_mut().filter(|(last, _)| *last == who) {
                Some((_, ns)) => *ns += run.end - run.start,
                None => stretches.push((who, run.end - run.start)),
            }
        }
        let on_path = [0, 1].map(|wanted| stretches.iter().filter(|(who, _)| *who == wanted).map(|(_, ns)| *ns).sum::<i64>());
        let turns = turns(&stretches);
        let wall_ns = (self.end - self.start) as f64;
        let [writer_ns, reader_ns] = on_path.map(|ns| ns as f64);
        let have_parts = writer_ns.min(reader_ns) >= wall_ns * limits::PIPE_SHARE;
        // While one had the path, the other waited here for it.
        let waited =
            joined.for_data_ns as f64 >= writer_ns * limits::PIPE_WAITED && joined.for_room_ns as f64 >= reader_ns * limits::PIPE_WAITED;
        (have_parts && waited && turns >= limits::PIPE_TURNS).then_some((joined, turns))
    }
}

/// Number of turns, from the stretches of each. Handing a buffer over takes both programs briefly, many times within a turn: a stretch that
/// is short compared with the usual one belongs to the other's turn.
fn turns(stretches: &[(usize, i64)]) -> u64 {
    let usual = [0, 1].map(|wanted| {
        let of = stretches.iter().filter(|(who, _)| *who == wanted).map(|(_, ns)| *ns as f64);
        let (sum, squares) = of.fold((0.0, 0.0), |(sum, squares), ns| (sum + ns, squares + ns * ns));
        if sum > 0.0 { squares / sum } else { 0.0 }
    });
    let long = stretches.iter().filter(|(who, ns)| *ns as f64 >= usual[*who] * limits::PIPE_HANDED_OVER).map(|(who, _)| *who);
    let mut long: Vec<usize> = long.collect();
    long.dedup();
    long.len() as u64 / 2
}

#[cfg(test)]
mod tests {
    use super::turns;

    #[test]
    fn handing_over_is_no_turn() {
        assert_eq!(turns(&[(0, 100), (1, 80), (0, 90), (1, 100)]), 2);
        // One works for 100, in pieces between which the other takes what there is; then that one works.
        let pieces = [(0, 40), (1, 1), (0, 30), (1, 1), (0, 30), (1, 80)];
        assert_eq!(turns(&pieces.repeat(5)), 5);
        assert_eq!(turns(&[]), 0);
    }
}
