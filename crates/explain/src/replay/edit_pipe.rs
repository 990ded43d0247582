//! The recorded run with room in a pipe for everything written to it: the writer no longer waits for the reader.
//!
//! The reader waits for the writer as before, and its data is written no later than it was: what it did not have to wait for in the
//! recording it does not have to wait for now.

use super::edit::passed;
use super::program::{Graph, Op};
use crate::observe::pipes::Joined;
use crate::observe::tables::Tables;

/// Makes the edit; `None` if the writer never waited.
pub(crate) fn with_room(graph: &Graph, tables: &Tables, joined: &Joined) -> Option<Graph> {
    let pid_of = |program: u32| {
        let track = graph.programs.get(program as usize).map(|program| program.track as usize);
        track.and_then(|track| tables.actors.get(track)).map(|actor| actor.pid)
    };
    let passed = passed(graph);
    let is_for_room = |op: &Op| match op {
        Op::Follow { mark, .. } => pid_of(passed[*mark as usize].0) == Some(joined.reader.0),
        _ => false,
    };
    let mut edited = graph.clone();
    let mut any = false;
    for (at, program) in edited.programs.iter_mut().enumerate().filter(|(at, _)| pid_of(*at as u32) == Some(joined.writer.0)) {
        let before = graph.programs[at].ops.len();
        program.ops.retain(|op| !is_for_room(op));
        any |= program.ops.len() < before;
    }
    any.then_some(edited)
}
