//! Copying whole trees: into a store, out of one, between two.
//!
//! A small file costs no bandwidth, only round trips and system calls, so what is copied together is asked for together. A
//! **batch** is what a walk through the source finds next: directories, and up to some hundred files of a few MiB in all. It takes three
//! round trips, however many files are in it:
//!
//! | | into a store | out of one |
//! |---|---|---|
//! | 1 | make the directories, and the files as `NAME.partial` (one message) | read the bytes (one message to each I/O server) |
//! | 2 | write the bytes (one message to each I/O server) | only of files that came short: ask whether they are still there (one message) |
//! | 3 | give the files their names and attributes, and close them (one message) | |
//!
//! Several **workers** each have a batch under way, so that local files, the network and all servers work at the same time, and a long
//! round trip is no hindrance. The walk goes on between batches, in bounded memory. A batch waits only for the directories of
//! batches before it. A file of more than [`SMALL_BYTES`] ends its batch and moves as any single copy does, while the other workers go on.
//!
//! What goes wrong with one entry is reported with its path, and does not stop the others. A file has its name when it is whole, and on
//! media if that was asked for; what is not whole is taken away, also when the copy is stopped. Only a metadata service that is gone, or
//! a source or target that cannot be used at all, ends the copy.

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

/// Makes the copy, traced as `mode` says; all tracers are dropped when it returns.
///
/// # Errors
/// Nothing could be copied, or not go on: the source is no directory, the target cannot be made, the metadata service is gone, it was
/// stopped. What was copied before stays. An entry that could not be copied is no error here: it is reported, and counted.
pub fn copy_tree(job: &TreeJob, observer: &dyn TreeObserver, mode: &TraceHandle) -> Result<TreeOutcome> {
    let context = Context { job, observer, mode };
    let mut tracer = mode.thread("main");
    let source: Box<dyn TreeSource + '_> = match &job.from {
        TreeEnd::Local(path) => Box::new(local_source::LocalTree::open(path, job.follow)?),
        TreeEnd::Store(store, path) => Box::new(store_source::StoreTree::open(&mut tracer, store, path)?),
    };
    let sink: Box<dyn TreeSink + '_> = match &job.to {
        TreeEnd::Local(path) => Box::new(local_sink::LocalTarget::new(context, path)),
        TreeEnd::Store(store, path) => Box::new(store_sink::StoreTarget::new(context, store, path)),
    };
    let copied = workers::run(context, &mut tracer, &*source, &*sink);
    job.control.end(mode, tracer.track());
    copied
}
