//! The metadata calls that the data path needs.

use thalweg_trace::Tracer;
use thalweg_wire::Connection;
use thalweg_wire::Result;
use thalweg_wire::protocol::common::ServiceStart;
use thalweg_wire::protocol::metadata::{Attributes, End, Existing, FileId, LayoutChoice};

/// Calls to the metadata service. Paths are relative to the store's root.
pub trait Names: Send + Sync {
    /// Creates an empty file and opens it for writing.
    ///
    /// # Errors
    /// The service's, naming the file.
    fn create(&self, tracer: &mut Tracer, path: &str, mode: u32, existing: Existing, layout: &LayoutChoice) -> Result<Attributes>;

    /// Returns the attributes of a file or directory.
    ///
    /// # Errors
    /// The service's, naming the file.
    fn stat(&self, tracer: &mut Tracer, path: &str) -> Result<Attributes>;

    /// Opens a file; with `write`, its bytes may be changed until it is closed.
    ///
    /// # Errors
    /// The service's, naming the file.
    fn open(&self, tracer: &mut Tracer, path: &str, write: bool) -> Result<Attributes>;

    /// Renames `file`, checking that `from` still names it. With `end`, also closes it, in the same message.
    ///
    /// # Errors
    /// [`thalweg_wire::ErrorKind::Busy`] when `from` names another file by now; the service's, naming the file.
    fn rename(&self, tracer: &mut Tracer, file: FileId, from: &str, to: &str, replace: bool, end: Option<End>) -> Result<()>;

    /// Removes `file`, checking that `path` still names it.
    ///
    /// # Errors
    /// As [`Names::rename`].
    fn unlink(&self, tracer: &mut Tracer, file: FileId, path: &str) -> Result<()>;

    /// Makes every change answered so far durable.
    ///
    /// # Errors
    /// The service's.
    fn sync(&self, tracer: &mut Tracer) -> Result<()>;

    /// Closes a file opened by [`Names::create`] or [`Names::open`], and reports what was written.
    fn close(&self, _file: FileId, _end: End) {}

    /// Returns a file's attributes by number; `None`: this implementation does not know numbers.
    ///
    /// # Errors
    /// The service's.
    fn attributes(&self, _tracer: &mut Tracer, _file: FileId) -> Result<Option<Attributes>> {
        Ok(None)
    }

    /// Returns the metadata service's start: the one last seen if it is not behind `seen`, otherwise a fresh answer. `None`: unknown.
    fn service(&self, _seen: ServiceStart) -> Option<ServiceStart> {
        None
    }

    /// Returns the number of removed files whose bytes are not deleted yet: their space will become free.
    fn removals(&self, _tracer: &mut Tracer) -> u64 {
        0
    }

    /// Runs `work` with the connection used for calls while a recording lasts. Does nothing if there is no such connection.
    ///
    /// # Errors
    /// `work`'s, or the connection's.
    fn with_connection(&self, work: &mut dyn FnMut(&mut Connection) -> Result<()>) -> Result<()>;
}
