//! Copies whole trees: into a store, out of one, between two.
//!
//! A small file costs round trips and system calls rather than bandwidth, so entries are handled in batches. A **batch** is the next part
//! of the walk: directories, and up to some hundred files of a few MiB in all. It takes three round trips, however many files are in it:
//!
//! | | into a store | out of one |
//! |---|---|---|
//! | 1 | make the directories, and the files as `NAME.partial` (one message) | read the bytes (one message to each I/O server) |
//! | 2 | write the bytes (one message to each I/O server) | only for files that came short: ask whether they still exist (one message) |
//! | 3 | give the files their names and attributes, and close them (one message) | |
//!
//! Several **workers** each have a batch in progress, so that local files, the network and all servers work in parallel and a long round
//! trip is hidden. The walk continues between batches, in bounded memory. A batch waits only for the directories of earlier batches. A
//! file of more than [`SMALL_BYTES`] ends its batch and is moved like a single copy, while the other workers continue.
//!
//! An error with one entry is reported with its path, and does not stop the others. A file gets its name when it is complete, and durable
//! if requested; incomplete files are removed, also when the copy is stopped. Only the loss of the metadata service, or an unusable source
//! or destination, ends the copy.

mod batch;
mod ends;
mod job;
mod local_sink;
mod local_source;
mod privileges;
mod requests;
mod store_sink;
mod store_source;
mod whole;
mod workers;

pub use batch::SMALL_BYTES;
use ends::{TreeSink, TreeSource};
use job::Context;
pub use job::{TreeEnd, TreeJob, TreeObserver, TreeOutcome, TreeStore};
pub use privileges::LeftOut;
use thalweg_trace::TraceHandle;
use thalweg_wire::Result;

/// Copies a tree; all tracers are dropped when it returns.
///
/// # Errors
/// The copy could not begin or continue: the source is not a directory, the destination cannot be made, the metadata service is
/// unreachable, or the copy was stopped. Entries already copied stay. An entry that could not be copied is reported and counted, not
/// returned as an error.
pub fn copy_tree(job: &TreeJob, observer: &dyn TreeObserver, trace: &TraceHandle) -> Result<TreeOutcome> {
    let context = Context { job, observer, trace };
    let mut tracer = trace.thread("main");
    let source: Box<dyn TreeSource + '_> = match &job.from {
        TreeEnd::Local(path) => Box::new(local_source::LocalTree::open(path, job.follow)?),
        TreeEnd::Store(store, path) => Box::new(store_source::StoreTree::open(&mut tracer, store, path, job.skip_damaged)?),
    };
    let sink: Box<dyn TreeSink + '_> = match &job.to {
        TreeEnd::Local(path) => Box::new(local_sink::LocalTarget::new(context, path)),
        TreeEnd::Store(store, path) => Box::new(store_sink::StoreTarget::new(context, store, path)),
    };
    let copied = workers::run(context, &mut tracer, &*source, &*sink);
    job.control.end(trace, tracer.track());
    copied
}
