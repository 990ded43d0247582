//! Copying: into a store, out of one, between two, from and to memory and pipes.
//!
//! # Two data paths
//!
//! **Buffered** is the way of `pvfs2-cp`: a request's bytes are read into memory, sent from there, and when every server
//! has answered, the next request is read. `requests` of them overlap; with one, disk and network take turns.
//! **Direct** is what a copy does by default: each connection's thread fetches its own flow buffers
//! from the source (or stores them in the sink), so that no request waits for all of its parts. Both move the same flow
//! buffers over the same connections.
//!
//! # Holes
//!
//! Where the source has a hole the copy has one: what is moved is the source's data ([`holes`]), and the copy gets its size by truncation.
//!
//! # Whole or not at all
//!
//! A copy is made under the name `NAME.partial` and renamed when every byte is there, and durable if that was asked for.
//! What ends a copy early (an error, a cancel, a kill) leaves `NAME` as it was; an error or a cancel also removes the
//! `.partial`. A source that shrinks or vanishes meanwhile is an error; of one that grows, what it had when the copy began is copied, and
//! the copy says so. What has no size, or none that is true ([`stream`]), is read to its end.

mod beneath;
mod clock;
mod control;
mod draft;
mod ends;
mod holes;
mod job;
mod local;
mod output;
mod partial;
mod record;
mod requests;
mod room;
mod run;
mod small;
mod stream;
mod tree;

pub use control::Control;
pub use draft::umask;
pub use job::{CopyJob, CopyObserver, CopyOutcome, DataPath, Quiet, Recording, Sink, Source, Sparse, Tuning};
pub use record::Recorder;
pub use run::run;
pub use tree::{LeftOut, SMALL_BYTES, TreeEnd, TreeJob, TreeObserver, TreeOutcome, TreeStore, copy_tree};
