//! Reads recordings: finished, left behind by a killed recorder, or still being recorded.

use super::checksums::{self, Checksums};
use super::convert::{Totals, convert};
use super::merge::Backward;
use super::parquet_file::Part;
use super::segment::{self, Damage, IN_MEMORY_BYTES};
use super::small_tables::Placed;
use super::tables::{parts, read_all};
use super::temporary::for_sorting;
use super::writer::meta_path;
use super::{SEGMENTS, span_table};
use crate::memory_source::moved;
use crate::{
    Axis, Clock, Counter, CounterName, Event, FORMAT_VERSION, Host, HostId, Mark, MarkKind, MemorySource, Meta, Object, Sample, Source,
};
use crate::{SpanBatch, Stack, TraceError, Track, decode_events};
use std::path::{Path, PathBuf};
use thalweg_base::temporary::TemporaryDirectory;

/// A recording on disk, opened.
pub struct Recording {
    inner: Inner,
}

enum Inner {
    Memory(Box<MemorySource>),
    Tables(Box<Tables>),
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").field("meta", self.meta()).finish_non_exhaustive()
    }
}

impl Recording {
    /// Opens the recording at `path`.
    pub fn open(path: &Path) -> Result<Recording, TraceError> {
        let meta = read_meta(path)?;
        let segments = path.join(SEGMENTS);
        if meta.end.is_some() && (has_tables(path) || !segments.is_dir()) {
            return Ok(Recording { inner: Inner::Tables(Box::new(Tables::open(path, meta)?)) });
        }
        if !segments.is_dir() {
            return Err(TraceError::new(path, "was never finished, and its segments are missing: there is nothing to read"));
        }
        let paths = segment::segment_paths(&segments)?;
        let size: u64 = paths.iter().map(|path| path.metadata().map_or(0, |m| m.len())).sum();
        if size <= IN_MEMORY_BYTES { Recording::in_memory(meta, &paths) } else { Recording::by_way_of_tables(meta, &paths) }
    }

    fn in_memory(mut meta: Meta, segments: &[PathBuf]) -> Result<Recording, TraceError> {
        let mut events = Vec::new();
        let damage = segment::read_frames(segments, |path, frame| {
            events.extend(
                decode_events(&frame.payload)
                    .map_err(|e| TraceError::new(path, format!("has an intact frame that cannot be decoded: {e}")))?,
            );
            Ok(())
        })?;
        let lost = |event: &Event| match event {
            Event::Mark(Mark { kind: MarkKind::Lost, value: Some(value), .. }) => u64::try_from(*value).unwrap_or(0),
            _ => 0,
        };
        let lost_events = events.iter().map(lost).fold(0, u64::saturating_add);
        note_damage(&mut meta, Totals { damage, lost_events });
        let inner = Inner::Memory(Box::new(MemorySource::from_events(meta, events)));
        Ok(Recording { inner })
    }

    fn by_way_of_tables(mut meta: Meta, segments: &[PathBuf]) -> Result<Recording, TraceError> {
        let directory = for_sorting()?;
        let totals = convert(segments, &[], directory.path())?;
        note_damage(&mut meta, totals);
        let mut tables = Tables::open(directory.path(), meta)?;
        tables.temporary = Some(directory);
        Ok(Recording { inner: Inner::Tables(Box::new(tables)) })
    }

    fn source(&self) -> &dyn Source {
        match &self.inner {
            Inner::Memory(source) => source.as_ref(),
            Inner::Tables(source) => source.as_ref(),
        }
    }
}

/// Whether the recording has tables; one finished to be read once has none.
fn has_tables(root: &Path) -> bool {
    root.join(checksums::NAME).is_file()
}

fn note_damage(meta: &mut Meta, totals: Totals) {
    let Damage { torn_bytes, lost_events } = totals.damage;
    meta.dropped_events = meta.dropped_events.saturating_add(lost_events).saturating_add(totals.lost_events);
    if torn_bytes > 0 {
        meta.attributes.push(("torn_bytes".to_owned(), torn_bytes.to_string()));
    }
}

pub(super) fn read_meta(root: &Path) -> Result<Meta, TraceError> {
    if !root.is_dir() {
        let what = if root.exists() { "is a file; a recording is a directory, NAME.thw" } else { "there is no such recording" };
        return Err(TraceError::new(root, what));
    }
    let path = meta_path(root);
    let text = match std::fs::read(&path) {
        Ok(text) if text.is_empty() => return Err(TraceError::new(&path, "is empty: the recording was emptied")),
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let empty = std::fs::read_dir(root).is_ok_and(|mut entries| entries.next().is_none());
            let what = if empty { "is an empty directory: the recording was emptied" } else { "is not a recording: it has no meta.json" };
            return Err(TraceError::new(root, what));
        }
        Err(e) => return Err(TraceError::new(&path, format!("cannot be read: {e}"))),
    };
    // The version first: other fields of a newer format may not fit this version's types.
    #[derive(serde::Deserialize)]
    struct Version {
        format: u32,
        made_by: Option<serde_json::Value>,
    }
    let damaged = |e| TraceError::new(&path, format!("is damaged or cut short: {e}"));
    let version: Version = serde_json::from_slice(&text).map_err(damaged)?;
    if version.format > FORMAT_VERSION {
        return Err(segment::newer_version(&path, version.format, version.made_by.as_ref().and_then(|release| release.as_str())));
    }
    serde_json::from_slice(&text).map_err(damaged)
}

/// The tables of a finished recording.
struct Tables {
    root: PathBuf,
    meta: Meta,
    sums: Checksums,
    hosts: Vec<Host>,
    clocks: Vec<Clock>,
    tracks: Vec<Track>,
    objects: Vec<Object>,
    axis: Axis,
    spans: Vec<(HostId, Part)>,
    temporary: Option<TemporaryDirectory>,
}

impl Tables {
    fn open(root: &Path, meta: Meta) -> Result<Tables, TraceError> {
        let sums = Checksums::read(root)?;
        for file in sums.files.keys() {
            if !root.join(file).is_file() {
                return Err(TraceError::new(&root.join(file), "is missing: the recording is not complete"));
            }
        }
        let mut hosts: Vec<Host> = read_all(root, &sums)?;
        let clocks: Vec<Clock> = read_all(root, &sums)?;
        let mut tracks: Vec<Track> = read_all(root, &sums)?;
        let mut objects: Vec<Object> = read_all(root, &sums)?;
        hosts.sort_by_key(|row| row.host);
        tracks.sort_by_key(|row| row.track);
        objects.sort_by_key(|row| row.object);
        let axis = Axis::new(&clocks, &tracks, &objects);
        let spans = parts(root, span_table::NAME, &sums)?;
        Ok(Tables { root: root.to_owned(), meta, sums, hosts, clocks, tracks, objects, axis, spans, temporary: None })
    }
}

impl Source for Tables {
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn hosts(&self) -> &[Host] {
        &self.hosts
    }
    fn clocks(&self) -> &[Clock] {
        &self.clocks
    }
    fn tracks(&self) -> &[Track] {
        &self.tracks
    }
    fn objects(&self) -> &[Object] {
        &self.objects
    }
    fn spans_backward<'a>(&'a self) -> Box<dyn Iterator<Item = Result<SpanBatch, TraceError>> + 'a> {
        Box::new(Backward::new(&self.axis, &self.spans))
    }
    fn marks(&self) -> Result<Vec<Mark>, TraceError> {
        let rows: Vec<Placed<Mark>> = read_all(&self.root, &self.sums)?;
        let mut marks: Vec<Mark> = rows.into_iter().map(|p| Mark { at: moved(&self.axis, p.host, p.row.at), ..p.row }).collect();
        marks.sort_by_key(|mark| mark.at);
        Ok(marks)
    }
    fn counters(&self, name: CounterName) -> Result<Vec<Counter>, TraceError> {
        let mut counters = self.every_counter()?;
        counters.retain(|counter| counter.name == name);
        Ok(counters)
    }
    fn every_counter(&self) -> Result<Vec<Counter>, TraceError> {
        let rows: Vec<Placed<Counter>> = read_all(&self.root, &self.sums)?;
        let mut counters: Vec<Counter> = rows.into_iter().map(|p| Counter { at: moved(&self.axis, p.host, p.row.at), ..p.row }).collect();
        counters.sort_by_key(|counter| counter.at);
        Ok(counters)
    }
    fn samples(&self) -> Result<Vec<Sample>, TraceError> {
        let mut samples: Vec<Sample> = read_all(&self.root, &self.sums)?;
        samples.iter_mut().for_each(|sample| sample.at = moved(&self.axis, sample.host, sample.at));
        samples.sort_by_key(|sample| sample.at);
        Ok(samples)
    }
    fn stacks(&self) -> Result<Vec<Stack>, TraceError> {
        read_all(&self.root, &self.sums)
    }
}

impl Source for Recording {
    fn meta(&self) -> &Meta {
        self.source().meta()
    }
    fn hosts(&self) -> &[Host] {
        self.source().hosts()
    }
    fn clocks(&self) -> &[Clock] {
        self.source().clocks()
    }
    fn tracks(&self) -> &[Track] {
        self.source().tracks()
    }
    fn objects(&self) -> &[Object] {
        self.source().objects()
    }
    fn spans_backward<'a>(&'a self) -> Box<dyn Iterator<Item = Result<SpanBatch, TraceError>> + 'a> {
        self.source().spans_backward()
    }
    fn marks(&self) -> Result<Vec<Mark>, TraceError> {
        self.source().marks()
    }
    fn counters(&self, name: CounterName) -> Result<Vec<Counter>, TraceError> {
        self.source().counters(name)
    }
    fn every_counter(&self) -> Result<Vec<Counter>, TraceError> {
        self.source().every_counter()
    }
    fn samples(&self) -> Result<Vec<Sample>, TraceError> {
        self.source().samples()
    }
    fn stacks(&self) -> Result<Vec<Stack>, TraceError> {
        self.source().stacks()
    }
}
