//! What the metadata service says of a file's datafiles, held against what there is.
//!
//! A datafile that comes short is a hole, or the end of the file, or has lost bytes: only the metadata service can say which, since it knows how
//! long the datafiles of a file are that nobody writes. It has said so when the file was opened; by now others may have written
//! or truncated it. So what does not fit is asked for again, the datafiles and then the service: only if it says the same before and after,
//! and what there is does not fit either time, is it an error. Nothing is asked where everything fits.

use super::data::DataClient;
use super::expected::{LastKnown, Misfit, misfit};
use super::handle::FileHandle;
use thalweg_trace::Tracer;
use thalweg_wire::protocol::io::DatafileSize;
use thalweg_wire::{Error, ErrorKind, Result};

/// How often a file that changes all the time is looked at.
const TRIES: usize = 4;

impl DataClient {
    /// Sizes of a file's datafiles, which fit what the metadata service says of them, if it says anything.
    ///
    /// # Errors
    /// As [`DataClient::glimpse`]; [`ErrorKind::Lost`] when bytes of the file are not there any more, or may not be.
    pub fn sizes(&self, tracer: &mut Tracer, file: &FileHandle) -> Result<Vec<DatafileSize>> {
        let mut known = file.expected().last_known();
        self.check_doubt(file, known.as_ref())?;
        for _ in 0..TRIES {
            let sizes = self.glimpse(tracer, file)?;
            let Some(problem) = known.as_ref().and_then(|known| misfit(file.layout(), &known.settled, &sizes)) else { return Ok(sizes) };
            let now = self.ask(tracer, file)?;
            self.check_doubt(file, now.as_ref())?;
            if now == known {
                return Err(self.lost(file, problem));
            }
            known = now;
        }
        // Somebody changes it all the time: what was true when it was opened says nothing.
        self.glimpse(tracer, file)
    }

    /// What the metadata service says now; it is expected from now on.
    fn ask(&self, tracer: &mut Tracer, file: &FileHandle) -> Result<Option<LastKnown>> {
        let Some(names) = self.names() else { return Ok(None) };
        let known = match names.attributes(tracer, file.id()) {
            Ok(attributes) => attributes.and_then(|a| Some(LastKnown { settled: a.settled?, change: a.change })),
            // It was removed, and so were its datafiles.
            Err(error) if error.is_gone() => None,
            Err(error) => return Err(error.on_file(file.path())),
        };
        file.expected().set(&known);
        Ok(known)
    }

    /// Whether bytes of the file are lost, or may have been with a machine's power.
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

    fn lost(&self, file: &FileHandle, problem: Misfit) -> Error {
        let Misfit { index, is_bytes, expected_bytes } = problem;
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

/// Bytes of a file were acknowledged and never arrived.
pub(super) fn lost_bytes() -> Error {
    let problem = "bytes of it were written and lost, on a full disk or at a server that was away. Write them again, or truncate it to its size to \
                   accept what there is";
    Error::new(ErrorKind::Lost, problem)
}
