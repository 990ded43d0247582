//! Two programs that take turns through a pipe.

use super::super::names::program;
use super::run::Run;
use super::words::number;
use crate::document::{Number, NumberKind};
use thalweg_trace::numbers::count;

/// Who they are, and how often.
pub(super) fn find(run: &Run<'_>) -> Option<Number> {
    let of = run.of;
    let (joined, turns) = of.parts.taking_turns_at_a_pipe()?;
    let name = |track: u32| program(of.parts.tables, of.meta, track);
    let (writer, reader) = (name(joined.writer.1), name(joined.reader.1));
    let sentence =
        format!("{writer} and {reader} took turns through a pipe, {} times: with more room in it both would work at once.", count(turns));
    Some(Number { count: Some(turns), ..number(NumberKind::InSeries, sentence) })
}
