//! The trace model, recordings on disk, and their exports.
//!
//! **In:** events ([`Event`]) from any recorder, through a [`Sink`]. **Out:** a recording directory `NAME.thw/` that
//! survives a kill of its recorder, the reader ([`Source`]) that all other crates use, and exports. **Never:** what
//! an event *means*: causes, transfers and gaps belong to `explain`.
//!
//! `SCHEMA.md` beside this crate describes the tables and their columns.

#![warn(unreachable_pub)]

mod abilities;
mod align;
pub mod anonymous;
pub mod arrows;
mod axis;
pub mod called;
mod clock;
mod codec;
mod error;
pub mod export;
pub mod frame;
mod kind;
mod knob;
#[allow(missing_docs)]
pub mod linux;
pub mod lookup;
mod loss;
mod memory_source;
pub mod merge;
mod model;
mod mount_description;
mod recording;
pub mod secrets;
mod sink;
mod source;
mod tcp_info;
mod tied;
mod time;
mod tracer;
mod waited;

pub use abilities::Abilities;
pub use clock::ClockRelation;
pub use codec::{DecodeError, decode_events, encode_events};
pub use error::{SourceError, TraceError};
pub use frame::Frame;
pub use kind::{CounterName, MarkKind, ObjectKind, Role, SpanKind, TrackKind, WakerContext};
pub use knob::{Knob, PLACE};
pub use loss::Loss;
pub use memory_source::MemorySource;
pub use model::*;
pub use mount_description::{MountDescription, MountedServer, MountedTarget};
pub use recording::{Ending, Recording, RecordingWriter, TableColumn, write_table};
pub use sink::{Memory, Sink};
pub use source::{ABSENT, ABSENT_CONTEXT, ABSENT_RESULT, Source, SpanBatch};
pub use tcp_info::TcpInfo;
pub use tied::Tied;
pub use time::Time;
pub use tracer::{Maker, OpenSpan, SpanFields, TraceHandle, Tracer};

use axis::Axis;
use waited::WaitStacks;
