//! A recording on disk: the directory `NAME.thw/`.
//!
//! **While it is being recorded** it holds `meta.json` without an end, and `segments/`: append-only
//! files of framed batches ([`segment`]). A batch is on its way to the page cache when [`Sink::take`]
//! returns, so a kill of the recorder loses only what its tracers had not handed over, and at most one
//! frame is torn, which its checksum shows.
//!
//! **Finishing** ([`RecordingWriter::finish`]) sorts the segments into one Parquet data set per table,
//! partitioned by host, in bounded memory; writes `checksums`; and then, as the one step that counts,
//! replaces `meta.json` by one that has an end. Before that step the segments are the recording, after
//! it the tables are; a kill at any moment leaves one of the two. A small recording that is explained once and
//! goes away gets the end alone ([`RecordingWriter::finish_to_read_once`]): without `checksums`, its segments are the recording.
//!
//! **Reading** ([`Recording::open`]) takes either. Every byte of a finished recording is covered by a
//! checksum per 16 KiB block, so damage is an error that names the file and the place, never data.
//!
//! [`Sink::take`]: crate::Sink::take

mod checksums;
mod convert;
mod dictionary;
mod flat_table;
mod leaf;
mod merge;
mod parquet_file;
mod reader;
pub(crate) mod rewrite;
mod row_group;
mod segment;
mod small_tables;
mod sorter;
mod span_table;
mod tables;
mod temporary;
mod window;
mod writer;

pub use flat_table::{TableColumn, write_table};
pub use reader::Recording;
pub use writer::{Ending, RecordingWriter};

pub(crate) use sorter::{Key, Sortable, Sorter};
pub(crate) use temporary::TemporaryDirectory;

use crate::{Meta, TraceError};
use std::path::Path;

/// Rows of a row group: small, so that walking backward holds little in memory, and so that the memory of
/// one batch is used again for the next instead of going back to the kernel (which halves the speed).
const ROW_GROUP_ROWS: usize = 16_384;

/// Fewest rows of a row group, in a recording of very many hosts.
const ROW_GROUP_ROWS_LEAST: usize = 4_096;

/// The largest row group that is read: what a damaged or foreign file can make this process hold.
const ROW_GROUP_ROWS_MOST: usize = 4 << 20;

const META: &str = "meta.json";
const SEGMENTS: &str = "segments";

/// Writes a file so that it is either the old one or the new one, whenever the process is killed.
fn replace_file(path: &Path, bytes: &[u8]) -> Result<(), TraceError> {
    let beside = path.with_extension("new");
    std::fs::write(&beside, bytes).map_err(|e| TraceError::new(&beside, format!("cannot be written: {e}")))?;
    std::fs::rename(&beside, path).map_err(|e| TraceError::new(path, format!("cannot be replaced: {e}")))
}

fn write_meta(root: &Path, meta: &Meta) -> Result<(), TraceError> {
    let text = serde_json::to_vec_pretty(meta).map_err(|e| TraceError::new(&root.join(META), e))?;
    replace_file(&root.join(META), &text)
}
