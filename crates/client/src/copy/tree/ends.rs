//! What a copy does with the two ends of a tree, on whichever side of the network each is.

use super::batch::{Batch, Item};
use super::whole;
use std::ops::Range;
use thalweg_trace::{SpanId, Tracer};
use thalweg_wire::{Error, Result};

/// Where a tree comes from.
pub(super) trait TreeSource: Sync {
    /// Fills a batch with what comes next, as long as there is room for it. `false`: there is no more. An error ends the copy.
    fn next(&self, tracer: &mut Tracer, batch: &mut Batch) -> Result<bool>;

    /// Reads the bytes of the batch's small files, and targets of links. What fails is noted there.
    fn load(&self, tracer: &mut Tracer, batch: &mut Batch, span: Option<SpanId>) -> Result<()>;

    /// The parts of a small file, `size_bytes` long, that are not holes.
    fn data_map(&self, tracer: &mut Tracer, item: &Item, size_bytes: u64) -> Result<Vec<Range<u64>>>;

    /// A large file, open for reading.
    fn large(&self, tracer: &mut Tracer, item: &Item) -> Result<whole::Source>;

    /// Its name, for recordings.
    fn name(&self) -> String;
}

/// Where a tree goes to.
pub(super) trait TreeSink: Sync {
    /// Whether what is made can be given to any user.
    fn keeps_owners(&self) -> bool {
        true
    }

    /// Makes the tree's own directory.
    fn begin(&self, tracer: &mut Tracer) -> Result<()>;

    /// Makes everything that a batch has; what fails is noted there. Calls `made` as soon as its directories are there. An error ends the copy.
    fn put(
        &self,
        tracer: &mut Tracer,
        batch: &mut Batch,
        source: &dyn TreeSource,
        span: Option<SpanId>,
        made: &mut dyn FnMut(&mut Batch),
    ) -> Result<()>;

    /// Everything is there: gives directories the attributes that they could not have while they were filled, and syncs names.
    fn finish(&self, tracer: &mut Tracer, failed: &mut dyn FnMut(&[u8], &Error)) -> Result<()>;

    /// Its name, for recordings.
    fn name(&self) -> String;
}
