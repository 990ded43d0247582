//! The trace: what was recorded, on one time axis, and the recording that keeps it on disk.
//!
//! **In:** events ([`Event`]) from any recorder, through a [`Sink`]. **Out:** a recording directory
//! `NAME.thw/` that survives a kill of its recorder, the reader ([`Source`]) through which everything
//! else sees it, and exports. **Never:** what an event *means*: causes, transfers and gaps are `explain`'s.
//!
//! The tables and their columns are in `SCHEMA.md` beside this crate.

pub mod align;
pub mod axis;
pub mod codec;
pub mod error;
pub mod export;
pub mod kind;
pub mod loss;
pub mod machine;
pub mod memory_source;
pub mod merge;
pub mod model;
mod mount_description;
pub mod recording;
pub mod sink;
pub mod source;
pub mod time;
pub mod tracer;

pub use align::{Alignment, align};
pub use axis::Axis;
pub use codec::{DecodeError, MAX_ENCODED_BYTES, decode_events, encode_events};
pub use error::{SourceError, TraceError};
pub use kind::{CounterName, MarkKind, ObjectKind, Role, SpanKind, TrackKind, WakerContext};
pub use loss::Loss;
pub use memory_source::MemorySource;
pub use merge::{Merged, merge};
pub use model::*;
pub use mount_description::{MountDescription, MountedServer, MountedTarget};
pub use recording::{Ending, Recording, RecordingWriter};
pub use sink::{Discard, Memory, Sink};
pub use source::{ABSENT, ABSENT_CONTEXT, ABSENT_RESULT, Source, SpanBatch};
pub use time::Time;
pub use tracer::{About, Begun, Mode, Tracer};
