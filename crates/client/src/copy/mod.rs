//! Copies files: into a store, out of one, between two, from and to memory and pipes.
//!
//! # Two data paths
//!
//! **Buffered** follows `pvfs2-cp`: a request's bytes are read into memory and sent from there, and the next request is read when every
//! server has answered. `requests` of them overlap; with one, disk and network alternate. **Direct**, the default, lets each connection's
//! thread fetch its own flow buffers from the source (or store them in the sink), so that no request waits for all of its parts. Both move
//! the same flow buffers over the same connections.
//!
//! # Holes
//!
//! A hole of the source becomes a hole of the copy: only the source's data is moved ([`holes`]), and truncation sets the copy's size.
//!
//! # Atomicity
//!
//! A copy is made under the name `NAME.partial` and renamed when every byte is written, and durable if requested. If a copy ends early (an
//! error, a cancel, a kill), `NAME` is unchanged; an error or a cancel also removes the `.partial`. A source that shrinks or vanishes
//! meanwhile is an error; of one that grows, the size at the start is copied, and the result says so. A source without a size, or with a
//! false one ([`stream`]), is read to its end.

mod around;
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
mod unpublished;

pub use control::Control;
pub use draft::umask;
pub use job::{CopyJob, CopyObserver, CopyOutcome, DataPath, Quiet, Recording, Sink, Source, Sparse, Tuning};
pub use record::Recorder;
pub use run::run;
pub use tree::{LeftOut, SMALL_BYTES, TreeEnd, TreeJob, TreeObserver, TreeOutcome, TreeStore, copy_tree};
pub use unpublished::Unpublished;
