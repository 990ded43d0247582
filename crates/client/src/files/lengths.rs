//! Compares the sizes of a file's datafiles with what the metadata service expects.
//!
//! A datafile that comes short has a hole, is the end of the file, or has lost bytes. Only the metadata service can decide, since it knows
//! the sizes of a file's datafiles while the file is not being written. It reported them when the file was opened; others may have written
//! or truncated it since. So on a mismatch the datafiles and then the service are asked again: it is an error only if the service's answer
//! is unchanged and the sizes mismatch both times. If the sizes match, no request is made.

use super::data::DataClient;
use super::expected::{LastKnown, SizeMismatch, size_mismatch};
use super::handle::FileHandle;
use thalweg_trace::Tracer;
use thalweg_wire::protocol::io::DatafileSize;
use thalweg_wire::{Error, ErrorKind, Result};

/// Attempts for a file that keeps changing.
const TRIES: usize = 4;

impl DataClient {
    /// Returns the sizes of a file's datafiles, checked against those the metadata service expects, if any.
    ///
    /// # Errors
    /// As [`DataClient::glimpse`]; [`ErrorKind::Lost`] when bytes of the file are lost, or may be.
    pub fn sizes(&self, tracer: &mut Tracer, file: &FileHandle) -> Result<Vec<DatafileSize>> {
        let mut known = file.expected().last_known();
        self.check_doubt(file, known.as_ref())?;
        for _ in 0..TRIES {
            let sizes = self.glimpse(tracer, file)?;
            let Some(problem) = known.as_ref().and_then(|known| size_mismatch(file.layout(), &known.settled, &sizes)) else {
                return Ok(sizes);
            };
            let now = self.ask(tracer, file)?;
            self.check_doubt(file, now.as_ref())?;
            if now == known {
                return Err(self.lost(file, problem));
            }
            known = now;
        }
        // The file keeps changing: the sizes known at open time say nothing.
        self.glimpse(tracer, file)
    }

    /// Asks the metadata service for the expected sizes and records them.
    fn ask(&self, tracer: &mut Tracer, file: &FileHandle) -> Result<Option<LastKnown>> {
        let Some(names) = self.names() else { return Ok(None) };
        let known = match names.attributes(tracer, file.id()) {
            Ok(attributes) => attributes.and_then(|a| Some(LastKnown { settled: a.settled?, change: a.change })),
            // Removed, and its datafiles with it.
            Err(error) if error.is_gone() => None,
            Err(error) => return Err(error.on_file(file.path())),
        };
        file.expected().set(&known);
        Ok(known)
    }

    /// Checks that no bytes of the file are lost, including losses suspected after a power failure.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`].
    pub fn check_readable(&self, file: &FileHandle) -> Result<()> {
        if file.is_lost() {
            return Err(lost_bytes().on_file(file.path()));
        }
        self.check_doubt(file, file.expected().last_known().as_ref())
    }

    fn check_doubt(&self, file: &FileHandle, known: Option<&LastKnown>) -> Result<()> {
        let Some(place) = known.and_then(|known| known.settled.doubtful) else { return Ok(()) };
        let server = self.map().servers.get(place as usize).map_or_else(|| format!("server {place}"), |server| server.name.clone());
        let problem = "was not synced before this server's machine was restarted, or the server does not say whether it was: bytes of it may be \
                       lost. Open it again when the server is there, copy it again, or truncate it to its size to accept what there is";
        Err(Error::new(ErrorKind::Lost, problem).at_server(server).on_file(file.path()))
    }

    fn lost(&self, file: &FileHandle, problem: SizeMismatch) -> Error {
        let SizeMismatch { index, is_bytes, expected_bytes } = problem;
        let id = file.datafile(index);
        let what = if is_bytes < expected_bytes { "bytes of the file are lost" } else { "it has bytes of another file" };
        let problem = format!(
            "datafile {} on target {} has {is_bytes} bytes instead of {expected_bytes}: {what}",
            format_args!("{}.{index}", id.file),
            id.target
        );
        let error = Error::new(ErrorKind::Lost, problem).on_file(file.path());
        match self.map().target(id.target) {
            Some((_, server)) => error.at_server(&server.name),
            None => error,
        }
    }
}

/// Returns the error for acknowledged bytes that never arrived.
pub(super) fn lost_bytes() -> Error {
    let problem = "bytes of it were written and lost, on a full disk or at a server that was away. Write them again, or truncate it to its size to \
                   accept what there is";
    Error::new(ErrorKind::Lost, problem)
}
