//! Two programs that take turns because the pipe between them holds little: one writes a burst and has to wait until the other has worked on most
//! of it, and the other then waits until the next burst comes.

use super::Parts;
use crate::limits::assemble as limits;
use crate::observe::pipes::Joined;

impl Parts<'_> {
    /// The two, and how often the critical path went from one to the other and back.
    pub(crate) fn taking_turns_at_a_pipe(&self) -> Option<(Joined, u64)> {
        let joined = self.seen.pipes.joined(self.tables)?;
        let machine = self.tables.actors.get(joined.writer.1 as usize)?.machine;
        let (mut changes, mut last, mut on_path) = (0_u64, None, [0_i64; 2]);
        for run in &self.ledger.path {
            let Some(actor) = self.tables.actors.get(run.track as usize).filter(|actor| actor.machine == machine) else { continue };
            let Some(who) = [joined.writer.0, joined.reader.0].iter().position(|pid| *pid == actor.pid) else { continue };
            on_path[who] += run.end - run.start;
            changes += u64::from(last.is_some_and(|last| last != who));
            last = Some(who);
        }
        let wall_ns = (self.end - self.start) as f64;
        let [writer_ns, reader_ns] = on_path.map(|ns| ns as f64);
        let have_parts = writer_ns.min(reader_ns) >= wall_ns * limits::PIPE_SHARE;
        // While one had the path, the other waited here for it.
        let waited =
            joined.for_data_ns as f64 >= writer_ns * limits::PIPE_WAITED && joined.for_room_ns as f64 >= reader_ns * limits::PIPE_WAITED;
        (have_parts && waited && changes / 2 >= limits::PIPE_TURNS).then_some((joined, changes / 2))
    }
}
