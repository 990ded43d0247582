//! Merges the spans of all hosts, backward in time on the reference axis, with one row group of each host in memory.
//!
//! Every host's file is in order of its own clock, and [`Axis`] keeps that order, so one merge suffices. A recording
//! of one host takes a shortcut: its row groups unchanged.

use super::parquet_file::Part;
use super::span_table;
use crate::memory_source::BATCH_ROWS;
use crate::{Axis, HostId, SpanBatch, TraceError};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Invokes a macro with every column of [`SpanBatch`].
macro_rules! every_column {
    ($apply:ident) => {
        $apply!(
            span,
            track,
            kind,
            start_ns,
            end_ns,
            count,
            object,
            offset_bytes,
            size_bytes,
            result,
            parent,
            request,
            waker_track,
            waker_context,
            cpu_ns,
            runqueue_ns,
            stack
        )
    };
}

fn append(to: &mut SpanBatch, from: &mut SpanBatch) {
    macro_rules! apply { ($($column:ident),*) => { $(to.$column.append(&mut from.$column);)* } }
    every_column!(apply);
}

fn split_off(batch: &mut SpanBatch, at: usize) -> SpanBatch {
    macro_rules! apply { ($($column:ident),*) => { SpanBatch { $($column: batch.$column.split_off(at)),* } } }
    every_column!(apply)
}

fn permuted(batch: &SpanBatch, order: &[u32]) -> SpanBatch {
    macro_rules! apply { ($($column:ident),*) => { SpanBatch { $($column: order.iter().map(|&i| batch.$column[i as usize]).collect()),* } } }
    every_column!(apply)
}

/// Gathers the rows named by `order` as (batch, row).
fn gathered(batches: &[&SpanBatch], order: &[(u32, u32)]) -> SpanBatch {
    macro_rules! apply { ($($column:ident),*) => { SpanBatch { $($column: order.iter().map(|&(b, i)| batches[b as usize].$column[i as usize]).collect()),* } } }
    every_column!(apply)
}

/// One host's spans, backward.
struct Stream<'a> {
    part: &'a Part,
    host: HostId,
    groups_left: usize,
    batch: SpanBatch,
    at: usize,
    /// Spans of one end instant that may continue in the next row group.
    tied: SpanBatch,
}

impl Stream<'_> {
    fn key(&self) -> (i64, u64) {
        (self.batch.end_ns[self.at], self.batch.span[self.at])
    }

    /// Loads the next batch into `batch`; false at the end.
    fn load(&mut self, axis: &Axis) -> Result<bool, TraceError> {
        self.at = 0;
        self.batch = SpanBatch::default();
        while self.batch.is_empty() {
            if self.groups_left == 0 {
                self.batch = sorted_ties(std::mem::take(&mut self.tied));
                break;
            }
            self.groups_left -= 1;
            let Some(rows) = self.part.read(self.groups_left)? else { continue };
            let mut batch = span_table::spans_backward(&rows)?;
            if !batch.end_ns.is_sorted_by(|later, earlier| later >= earlier) {
                return Err(TraceError::new(
                    self.part.path(),
                    "is not in order of its spans' ends; rewrite it sorted by start_ns + duration_ns",
                ));
            }
            if !axis.is_reference(self.host) {
                axis.all_to_reference(self.host, &mut batch.start_ns);
                axis.all_to_reference(self.host, &mut batch.end_ns);
            }
            self.batch = if axis.is_shift(self.host) { batch } else { self.untied(batch) };
        }
        Ok(!self.batch.is_empty())
    }

    /// Sorts spans by number where drift or a step maps different instants of the host to one instant of the
    /// reference axis. Retains those with the last end instant, which the next batch may continue.
    fn untied(&mut self, mut batch: SpanBatch) -> SpanBatch {
        let mut all = std::mem::take(&mut self.tied);
        append(&mut all, &mut batch);
        let last = *all.end_ns.last().expect("a row group that was read has rows");
        let held_from = all.end_ns.partition_point(|&end| end > last);
        self.tied = split_off(&mut all, held_from);
        sorted_ties(all)
    }
}

fn sorted_ties(batch: SpanBatch) -> SpanBatch {
    let mut order: Vec<u32> = (0..batch.len() as u32).collect();
    let key = |i: u32| (batch.end_ns[i as usize], batch.span[i as usize]);
    if order.is_sorted_by(|&a, &b| key(a) >= key(b)) {
        return batch;
    }
    order.sort_by_key(|&i| std::cmp::Reverse(key(i)));
    permuted(&batch, &order)
}

/// All hosts' spans, backward.
pub(super) struct Backward<'a> {
    axis: &'a Axis,
    streams: Vec<Stream<'a>>,
    /// The next span of each stream that is not exhausted.
    heap: BinaryHeap<((i64, u64), usize)>,
    begun: bool,
    failed: bool,
}

impl<'a> Backward<'a> {
    pub(super) fn new(axis: &'a Axis, parts: &'a [(HostId, Part)]) -> Backward<'a> {
        let stream = |(host, part): &'a (HostId, Part)| Stream {
            part,
            host: *host,
            groups_left: part.row_groups(),
            batch: SpanBatch::default(),
            at: 0,
            tied: SpanBatch::default(),
        };
        let streams: Vec<_> = parts.iter().filter(|(_, part)| part.rows() > 0).map(stream).collect();
        Backward { axis, streams, heap: BinaryHeap::new(), begun: false, failed: false }
    }

    fn step(&mut self) -> Result<Option<SpanBatch>, TraceError> {
        if let [only] = self.streams.as_mut_slice() {
            return Ok(only.load(self.axis)?.then(|| std::mem::take(&mut only.batch)));
        }
        if !self.begun {
            self.begun = true;
            for i in 0..self.streams.len() {
                self.refill(i)?;
            }
        }
        let mut order: Vec<(u32, u32)> = Vec::with_capacity(BATCH_ROWS);
        let mut used_up = None;
        while let Some(mut top) = self.heap.peek_mut() {
            let i = top.1;
            let stream = &mut self.streams[i];
            order.push((i as u32, stream.at as u32));
            stream.at += 1;
            if stream.at == stream.batch.len() {
                PeekMut::pop(top);
                used_up = Some(i);
                break;
            }
            top.0 = stream.key();
            if order.len() == BATCH_ROWS {
                break;
            }
        }
        let batches: Vec<&SpanBatch> = self.streams.iter().map(|stream| &stream.batch).collect();
        let merged = gathered(&batches, &order);
        if let Some(i) = used_up {
            self.refill(i)?;
        }
        Ok((!merged.is_empty()).then_some(merged))
    }

    fn refill(&mut self, i: usize) -> Result<(), TraceError> {
        if self.streams[i].load(self.axis)? {
            self.heap.push((self.streams[i].key(), i));
        }
        Ok(())
    }
}

impl Iterator for Backward<'_> {
    type Item = Result<SpanBatch, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let step = self.step();
        self.failed = step.is_err();
        step.transpose()
    }
}
