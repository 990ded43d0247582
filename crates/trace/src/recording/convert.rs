//! Converts segments to tables in bounded memory. The small tables are collected first, because a span's host is its
//! track's; everything else goes through external sorts into one file per host.

use super::segment::{self, Damage, describes};
use super::small_tables::Placed;
use super::sorter::Sorter;
use super::tables::{ALL, TablesWriter};
use crate::{
    Axis, Clock, Counter, Event, Host, HostId, Mark, MarkKind, Object, Sample, Span, Stack, TraceError, Track, WaitStacks, decode_events,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Counts taken during conversion.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub damage: Damage,
    /// The sum of all `lost` marks.
    pub lost_events: u64,
}

/// The rows that others refer to. A repeated row replaces the earlier one.
#[derive(Default)]
struct Small {
    hosts: BTreeMap<u16, Host>,
    clocks: BTreeMap<(u16, i64), Clock>,
    tracks: BTreeMap<u64, Track>,
    objects: BTreeMap<u64, Object>,
    stacks: BTreeMap<u32, Stack>,
    waits: WaitStacks,
}

impl Small {
    fn add(&mut self, event: Event) {
        match event {
            Event::Host(row) => drop(self.hosts.insert(row.host.0, row)),
            Event::Clock(row) => drop(self.clocks.insert((row.host.0, row.from_ns), row)),
            Event::Track(row) => drop(self.tracks.insert(row.track.number(), row)),
            Event::Object(row) => drop(self.objects.insert(row.object.number(), row)),
            Event::Stack(row) => drop(self.stacks.insert(row.stack, row)),
            Event::Waited(row) => self.waits.add(&row),
            Event::Span(_) | Event::Mark(_) | Event::Counter(_) | Event::Sample(_) => {}
        }
    }
}

struct Sorters {
    spans: Sorter<Placed<Span>>,
    marks: Sorter<Placed<Mark>>,
    counters: Sorter<Placed<Counter>>,
    samples: Sorter<Sample>,
    lost_events: u64,
}

impl Sorters {
    fn add(&mut self, axis: &Axis, event: &Event) -> Result<(), TraceError> {
        match *event {
            Event::Span(row) => self.spans.push(Placed { host: axis.host_of_track(row.track.number()), row }),
            Event::Mark(row) => {
                if row.kind == MarkKind::Lost {
                    let lost = row.value.and_then(|v| u64::try_from(v).ok()).unwrap_or(0);
                    self.lost_events = self.lost_events.saturating_add(lost);
                }
                self.marks.push(Placed { host: axis.host_of_track(row.track.number()), row })
            }
            Event::Counter(row) => self.counters.push(Placed { host: axis.host_of_counter(row.of), row }),
            Event::Sample(row) => self.samples.push(row),
            Event::Host(_) | Event::Clock(_) | Event::Track(_) | Event::Object(_) | Event::Stack(_) | Event::Waited(_) => Ok(()),
        }
    }
}

/// Removes the tables of an interrupted conversion.
pub(super) fn remove_tables(root: &Path) {
    for table in ALL {
        let _ = std::fs::remove_dir_all(root.join(table));
    }
}

fn events(path: &Path, payload: &[u8]) -> Result<Vec<Event>, TraceError> {
    decode_events(payload).map_err(|e| TraceError::new(path, format!("has an intact frame that cannot be decoded: {e}")))
}

/// Writes the tables and checksums of these segments, and of `more` events, to `root`.
pub(super) fn convert(segments: &[PathBuf], more: &[Event], root: &Path) -> Result<Totals, TraceError> {
    remove_tables(root);
    let sorting = root.join("sorting");
    let _ = std::fs::remove_dir_all(&sorting);
    std::fs::create_dir(&sorting).map_err(|e| TraceError::new(&sorting, format!("cannot be created: {e}")))?;
    let converted = convert_with(segments, more, root, &sorting);
    let _ = std::fs::remove_dir_all(&sorting);
    if converted.is_err() {
        remove_tables(root);
    }
    converted
}

fn convert_with(segments: &[PathBuf], more: &[Event], root: &Path, sorting: &Path) -> Result<Totals, TraceError> {
    let mut small = Small::default();
    segment::read_frames(segments, |path, frame| {
        if frame.describes {
            events(path, &frame.payload)?.into_iter().filter(describes).for_each(|event| small.add(event));
        }
        Ok(())
    })?;
    more.iter().filter(|event| describes(event)).for_each(|event| small.add(event.clone()));

    let tracks: Vec<Track> = small.tracks.values().cloned().collect();
    let objects: Vec<Object> = small.objects.values().cloned().collect();
    let axis = Axis::new(&[], &tracks, &objects);
    let mut sorters = Sorters {
        spans: Sorter::new(sorting, "spans"),
        marks: Sorter::new(sorting, "marks"),
        counters: Sorter::new(sorting, "counters"),
        samples: Sorter::new(sorting, "samples"),
        lost_events: 0,
    };
    let damage =
        segment::read_frames(segments, |path, frame| events(path, &frame.payload)?.iter().try_for_each(|event| sorters.add(&axis, event)))?;
    more.iter().try_for_each(|event| sorters.add(&axis, event))?;

    let totals = Totals { damage, lost_events: sorters.lost_events };
    write_tables(small, tracks, objects, sorters, root)?;
    Ok(totals)
}

fn write_tables(small: Small, mut tracks: Vec<Track>, mut objects: Vec<Object>, sorters: Sorters, root: &Path) -> Result<(), TraceError> {
    let mut tables = TablesWriter::new(root);
    let hosts = small.hosts.len();
    let mut out = tables.table::<Host>();
    small.hosts.into_values().try_for_each(|row| out.push(row.host, row))?;
    out.finish()?;
    let mut out = tables.table::<Clock>();
    small.clocks.into_values().try_for_each(|row| out.push(row.host, row))?;
    out.finish()?;
    let mut out = tables.table::<Track>();
    tracks.sort_by_key(|row| (row.host, row.track));
    tracks.into_iter().try_for_each(|row| out.push(row.host, row))?;
    out.finish()?;
    let mut out = tables.table::<Object>();
    objects.sort_by_key(|row| (row.host, row.object));
    objects.into_iter().try_for_each(|row| out.push(row.host, row))?;
    out.finish()?;
    let mut out = tables.table::<Stack>();
    small.stacks.into_values().try_for_each(|row| out.push(HostId(0), row))?;
    out.finish()?;
    let mut out = tables.table::<Placed<Mark>>();
    sorters.marks.drain(|row| out.push(row.host, row))?;
    out.finish()?;
    let mut out = tables.table::<Placed<Counter>>();
    sorters.counters.drain(|row| out.push(row.host, row))?;
    out.finish()?;
    let mut out = tables.table::<Sample>();
    sorters.samples.drain(|row| out.push(row.host, row))?;
    out.finish()?;
    let mut out = tables.spans(hosts);
    let mut waits = small.waits;
    sorters.spans.drain(|placed| out.push(placed.host, waits.with_stack(placed.row)))?;
    out.finish()?;
    tables.sums.write(root)
}
