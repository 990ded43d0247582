//! Two sequential processes, the second of which reads what the first wrote: joined by a pipe, the second could read while the first
//! writes.
//!
//! A bound: a program that reads a file from its end, or twice, cannot read a pipe; this is not checked.

use super::lives::{Lived, lives};
use super::raise::Behind;
use super::run::Run;
use super::words::{capital, number};
use crate::document::{Number, NumberKind};
use crate::facts::names::{brief, file_name, program};
use crate::facts::raise::Raise;
use crate::limits::numbers as limits;
use crate::observe::observation::Way;
use thalweg_base::numbers::duration;

/// The pair whose shorter process took longest.
pub(super) fn find(run: &Run<'_>) -> Option<Behind> {
    let parts = run.of.parts;
    let lives = lives(run);
    let within = |(first, last): (i64, i64)| lives.iter().filter(move |l| l.from <= first && last <= l.until).min_by_key(|l| l.ns());
    let (written, read) = (&parts.seen.stream(Way::ClientWrites).by_object, &parts.seen.stream(Way::ClientReads).by_object);
    let passed_on = written.iter().zip(read).enumerate().filter_map(|(object, both)| {
        let (Some(written), Some(read)) = both else { return None };
        let all = written.bytes >= limits::LEAST_BYTES && read.bytes as f64 >= written.bytes as f64 * limits::COPIED;
        let (writer, reader) = (within(written.extent()?)?, within(read.extent()?)?);
        (all && writer.until <= reader.from).then_some((object, *writer, *reader))
    });
    let shorter = |(_, writer, reader): &(usize, Lived, Lived)| writer.ns().min(reader.ns());
    let found = passed_on.max_by_key(|found| (shorter(found), found.0))?;
    let gained_ns = shorter(&found) as f64;
    if gained_ns < parts.wall_s() * 1e9 * limits::STAGE_SHARE {
        return None;
    }
    let (object, writer, reader) = found;
    let name = |lived: &Lived| program(parts.tables, run.of.meta, lived.track);
    let seconds = |lived: &Lived| duration(lived.ns() as f64 / 1e9);
    let sentence = format!(
        "{} reads {} only when {} has written all of it: {} and {}, one after the other.",
        capital(&name(&reader)),
        brief(file_name(&parts.tables.objects[object].name)),
        name(&writer),
        seconds(&writer),
        seconds(&reader)
    );
    let made = Number { each_s: Some(gained_ns / 1e9), ..number(NumberKind::InSeries, sentence) };
    let change = format!("{} while {} still writes", name(&reader), name(&writer));
    let how = "let the second read while the first writes: a pipe between them (FIRST | SECOND) instead of the file";
    Some(made.raised_by(Raise { id: "overlap.stages", change, how, gained_ns }))
}
