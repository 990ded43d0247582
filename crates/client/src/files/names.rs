//! The names of a store, as the data path needs them.

use thalweg_trace::Tracer;
use thalweg_wire::Connection;
use thalweg_wire::Result;
use thalweg_wire::protocol::common::ServiceStart;
use thalweg_wire::protocol::metadata::{Attributes, End, Existing, FileId, LayoutChoice};

/// Calls to the metadata service. Paths are from the store's root.
pub trait Names: Send + Sync {
    /// Makes an empty file, and opens it for writing.
    ///
    /// # Errors
    /// The service's, naming the file.
    fn create(&self, tracer: &mut Tracer, path: &str, mode: u32, existing: Existing, layout: &LayoutChoice) -> Result<Attributes>;

    /// What is known of a file or directory.
    ///
    /// # Errors
    /// The service's, naming the file.
    fn stat(&self, tracer: &mut Tracer, path: &str) -> Result<Attributes>;

    /// Opens a file; with `write`, its bytes may be changed until it is closed.
    ///
    /// # Errors
    /// The service's, naming the file.
    fn open(&self, tracer: &mut Tracer, path: &str, write: bool) -> Result<Attributes>;

    /// Renames `file`, and no other. With `end`, this closes it too, in the same message.
    ///
    /// # Errors
    /// [`thalweg_wire::ErrorKind::Busy`] when `from` is another file's by now; the service's, naming the file.
    fn rename(&self, tracer: &mut Tracer, file: FileId, from: &str, to: &str, replace: bool, end: Option<End>) -> Result<()>;

    /// Removes `file`, and no other.
    ///
    /// # Errors
    /// As [`Names::rename`].
    fn unlink(&self, tracer: &mut Tracer, file: FileId, path: &str) -> Result<()>;

    /// Makes everything answered so far durable.
    ///
    /// # Errors
    /// The service's.
    fn sync(&self, tracer: &mut Tracer) -> Result<()>;

    /// A file that [`Names::create`] or [`Names::open`] has opened is of no more use to the caller, and how its use has ended.
    fn close(&self, _file: FileId, _end: End) {}

    /// What is known of a file, by its number; `None`: this one does not know numbers.
    ///
    /// # Errors
    /// The service's.
    fn attributes(&self, _tracer: &mut Tracer, _file: FileId) -> Result<Option<Attributes>> {
        Ok(None)
    }

    /// The start of the metadata service: what is known of it, if that is not behind what was `seen`, or else as the service says now. `None`:
    /// nobody knows.
    fn service(&self, _seen: ServiceStart) -> Option<ServiceStart> {
        None
    }

    /// How many removed files' bytes are still to go, so that there will be more room than there is.
    fn removals(&self, _tracer: &mut Tracer) -> u64 {
        0
    }

    /// The connection that calls go over while `work`'s recording lasts. Where there is none, `work` is not called.
    ///
    /// # Errors
    /// `work`'s, or the connection's.
    fn with_connection(&self, work: &mut dyn FnMut(&mut Connection) -> Result<()>) -> Result<()>;
}
