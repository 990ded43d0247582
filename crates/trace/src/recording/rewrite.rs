//! Rewrites a recording with other names: numbers unchanged, every text through [`Rewriting`].
//!
//! Rows are decoded and encoded again, never copied as files, so that additions by other programs are not carried
//! over.

use super::checksums::Checksums;
use super::convert::{convert, remove_tables};
use super::parquet_file::Part;
use super::reader::{Recording, read_meta};
use super::segment::segment_paths;
use super::small_tables::{Placed, Table};
use super::tables::{TablesWriter, parts, read_all};
use super::writer::make_directory;
use super::{SEGMENTS, for_sorting, span_table, write_meta};
use crate::{Clock, Counter, Host, HostId, Mark, Meta, Object, Sample, Stack, Time, TraceError, Track};
use std::path::Path;

/// Changes the texts of a recording.
pub(crate) trait Rewriting {
    /// Changes the metadata.
    fn meta(&mut self, meta: &mut Meta);
    /// Changes a host.
    fn host(&mut self, host: &mut Host);
    /// Changes a thread, connection or device.
    fn track(&mut self, track: &mut Track);
    /// Changes a file, connection, device, server or mount.
    fn object(&mut self, object: &mut Object);
    /// Changes the frames of a stack.
    fn stack(&mut self, stack: &mut Stack);
}

/// Writes the recording at `from` to `to` as a finished one; `from` need not be finished.
pub(crate) fn rewrite(from: &Path, to: &Path, how: &mut dyn Rewriting) -> Result<(), TraceError> {
    let mut meta = read_meta(from)?;
    let existed = to.exists();
    make_directory(to)?;
    if std::fs::read_dir(to).map_err(|e| TraceError::new(to, format!("cannot be read: {e}")))?.next().is_some() {
        return Err(TraceError::new(to, "exists and is not empty; choose another name, or remove it"));
    }
    let written = match meta.end {
        Some(_) => tables(from, to, how),
        None => unfinished(from, to, how, &mut meta),
    };
    let done = written.and_then(|()| {
        how.meta(&mut meta);
        write_meta(to, &meta)
    });
    if done.is_err() {
        remove_tables(to);
        let _ = std::fs::remove_file(to.join(super::checksums::NAME));
        if !existed {
            let _ = std::fs::remove_dir(to);
        }
    }
    done
}

/// Rewrites an unfinished recording: what its recorder had written so far.
fn unfinished(from: &Path, to: &Path, how: &mut dyn Rewriting, meta: &mut Meta) -> Result<(), TraceError> {
    let directory = for_sorting()?;
    let totals = convert(&segment_paths(&from.join(SEGMENTS))?, &[], directory.path())?;
    let lost = totals.damage.lost_events.saturating_add(totals.lost_events);
    meta.dropped_events = meta.dropped_events.saturating_add(lost);
    let recording = Recording::open(from)?;
    let last = crate::Source::spans_backward(&recording).next().transpose()?.and_then(|batch| batch.end_ns.first().copied());
    meta.end = Some(last.map_or(meta.start, Time::from_monotonic_ns));
    tables(directory.path(), to, how)
}

fn tables(from: &Path, to: &Path, how: &mut dyn Rewriting) -> Result<(), TraceError> {
    let sums = Checksums::read(from)?;
    let mut out = TablesWriter::new(to);
    let mut hosts: Vec<Host> = read_all(from, &sums)?;
    hosts.sort_by_key(|row| row.host);
    hosts.iter_mut().for_each(|row| how.host(row));
    let many = hosts.len();
    all(&mut out, hosts.into_iter().map(|row| (row.host, row)))?;
    let mut clocks: Vec<Clock> = read_all(from, &sums)?;
    clocks.sort_by_key(|row| (row.host, row.from_ns));
    all(&mut out, clocks.into_iter().map(|row| (row.host, row)))?;
    let mut tracks: Vec<Track> = read_all(from, &sums)?;
    tracks.sort_by_key(|row| (row.host, row.track));
    tracks.iter_mut().for_each(|row| how.track(row));
    all(&mut out, tracks.into_iter().map(|row| (row.host, row)))?;
    let mut objects: Vec<Object> = read_all(from, &sums)?;
    objects.sort_by_key(|row| (row.host, row.object));
    objects.iter_mut().for_each(|row| how.object(row));
    all(&mut out, objects.into_iter().map(|row| (row.host, row)))?;
    let mut stacks: Vec<Stack> = read_all(from, &sums)?;
    stacks.sort_by_key(|row| row.stack);
    stacks.iter_mut().for_each(|row| how.stack(row));
    all(&mut out, stacks.into_iter().map(|row| (HostId(0), row)))?;
    by_group::<Placed<Mark>>(from, &sums, &mut out)?;
    by_group::<Placed<Counter>>(from, &sums, &mut out)?;
    by_group::<Sample>(from, &sums, &mut out)?;
    spans(from, &sums, &mut out, many)?;
    out.sums.write(to)
}

fn all<T: Table + Clone>(out: &mut TablesWriter<'_>, rows: impl Iterator<Item = (HostId, T)>) -> Result<(), TraceError> {
    let mut table = out.table::<T>();
    for (host, row) in rows {
        table.push(host, row)?;
    }
    table.finish()
}

/// Copies a table without texts of its own, one row group at a time.
fn by_group<T: Table + Clone>(from: &Path, sums: &Checksums, out: &mut TablesWriter<'_>) -> Result<(), TraceError> {
    let mut table = out.table::<T>();
    for (host, part) in ordered(from, T::NAME, sums)? {
        for group in 0..part.row_groups() {
            let Some(columns) = part.read(group)? else { continue };
            T::rows(host, &columns)?.into_iter().try_for_each(|row| table.push(host, row))?;
        }
    }
    table.finish()
}

fn spans(from: &Path, sums: &Checksums, out: &mut TablesWriter<'_>, hosts: usize) -> Result<(), TraceError> {
    let mut table = out.spans(hosts);
    for (host, part) in ordered(from, span_table::NAME, sums)? {
        for group in 0..part.row_groups() {
            let Some(columns) = part.read(group)? else { continue };
            let batch = span_table::spans_backward(&columns)?;
            (0..batch.len()).rev().filter_map(|row| batch.row(row)).try_for_each(|span| table.push(host, span))?;
        }
    }
    table.finish()
}

/// Returns the files of a table, by host number.
fn ordered(from: &Path, table: &str, sums: &Checksums) -> Result<Vec<(HostId, Part)>, TraceError> {
    let mut all = parts(from, table, sums)?;
    all.sort_by_key(|(host, _)| *host);
    Ok(all)
}
