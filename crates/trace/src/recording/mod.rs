//! A recording on disk: the directory `NAME.thw/`.
//!
//! **While recording** it holds `meta.json` without an end, and `segments/`: append-only files of framed batches
//! ([`segment`]). A batch has been written to the page cache when [`Sink::take`] returns, so a kill of the recorder
//! loses only what its tracers had not yet passed on; at most one frame is torn, which its checksum reveals.
//!
//! **Finishing** ([`RecordingWriter::finish`]) sorts the segments into one Parquet data set per table, partitioned by
//! host, in bounded memory; writes `checksums`; and then commits by replacing `meta.json` with one that has an end.
//! Before that step the segments are the recording, after it the tables are; a kill at any moment leaves one of the
//! two. A small recording that is explained once and discarded gets only the end
//! ([`RecordingWriter::finish_to_read_once`]): without `checksums`, its segments are the recording.
//!
//! **Reading** ([`Recording::open`]) accepts either. Every byte of a finished recording is covered by a checksum per
//! 16 KiB block, so damage is an error that names the file and the position, never data.
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
pub(crate) use temporary::for_sorting;

use crate::{Meta, TraceError};
use std::path::Path;
use thalweg_base::release::RELEASE;

/// Rows per row group: small, so that walking backward needs little memory and each batch reuses the memory of the
/// previous one instead of returning it to the kernel (which halves the speed).
const ROW_GROUP_ROWS: usize = 16_384;

/// Minimum rows per row group, in a recording of very many hosts.
const ROW_GROUP_ROWS_LEAST: usize = 4_096;

/// Maximum row group accepted: bounds the memory a damaged or foreign file can make this process hold.
const ROW_GROUP_ROWS_MOST: usize = 4 << 20;

const META: &str = "meta.json";
const SEGMENTS: &str = "segments";

/// Replaces a file atomically: a kill of the process leaves either the old or the new one.
fn replace_file(path: &Path, bytes: &[u8]) -> Result<(), TraceError> {
    let beside = path.with_extension("new");
    std::fs::write(&beside, bytes).map_err(|e| TraceError::new(&beside, format!("cannot be written: {e}")))?;
    std::fs::rename(&beside, path).map_err(|e| TraceError::new(path, format!("cannot be replaced: {e}")))
}

fn write_meta(root: &Path, meta: &Meta) -> Result<(), TraceError> {
    #[derive(serde::Serialize)]
    struct Written<'a> {
        #[serde(flatten)]
        meta: &'a Meta,
        made_by: &'a str,
    }
    let text = serde_json::to_vec_pretty(&Written { meta, made_by: RELEASE }).map_err(|e| TraceError::new(&root.join(META), e))?;
    replace_file(&root.join(META), &text)
}
