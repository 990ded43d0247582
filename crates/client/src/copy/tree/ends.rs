//! The operations a copy needs of a tree's two ends, local or in a store.

use super::batch::{Batch, Item};
use super::whole;
use std::ops::Range;
use thalweg_trace::{SpanId, Tracer};
use thalweg_wire::{Error, Result};

/// Source of a tree.
pub(super) trait TreeSource: Sync {
    /// Adds the next entries to a batch while there is room. `false`: none left. An error ends the copy.
    fn next(&self, tracer: &mut Tracer, batch: &mut Batch) -> Result<bool>;

    /// Reads the bytes of the batch's small files, and link targets. Failures are noted in the batch.
    fn load(&self, tracer: &mut Tracer, batch: &mut Batch, span: Option<SpanId>) -> Result<()>;

    /// Returns the data ranges of a small file of `size_bytes`.
    fn data_map(&self, tracer: &mut Tracer, item: &Item, size_bytes: u64) -> Result<Vec<Range<u64>>>;

    /// Opens a large file for reading.
    fn large(&self, tracer: &mut Tracer, item: &Item) -> Result<whole::Source>;

    /// Returns its name, for recordings.
    fn name(&self) -> String;
}

/// Destination of a tree.
pub(super) trait TreeSink: Sync {
    /// Whether entries can be given any owner.
    fn keeps_owners(&self) -> bool {
        true
    }

    /// Creates the root directory.
    fn begin(&self, tracer: &mut Tracer) -> Result<()>;

    /// Creates every entry of a batch; failures are noted in the batch. Calls `made` once its directories exist. An error ends the copy.
    fn put(
        &self,
        tracer: &mut Tracer,
        batch: &mut Batch,
        source: &dyn TreeSource,
        span: Option<SpanId>,
        made: &mut dyn FnMut(&mut Batch),
    ) -> Result<()>;

    /// Completes the copy: sets attributes of directories that could not be set while they were being filled, and syncs names.
    fn finish(&self, tracer: &mut Tracer, failed: &mut dyn FnMut(&[u8], &Error)) -> Result<()>;

    /// Returns its name, for recordings.
    fn name(&self) -> String;
}
