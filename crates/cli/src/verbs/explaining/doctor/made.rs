//! The changes that `doctor --fix` made and `--undo` has not undone: `doctor.json` in this user's state directory.

use crate::failure::Failure;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::PathBuf;
use thalweg_base::{durable, private};
use thalweg_record::probe::fix::Change;

const SCHEMA: &str = "thalweg.doctor.made/1";

/// One change, as it was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Made {
    /// The fix's identifier.
    pub(super) id: String,
    pub(super) change: Change,
}

#[derive(Serialize, Deserialize)]
struct Document {
    schema: String,
    made: Vec<Made>,
}

/// The file.
pub(super) struct Journal {
    path: PathBuf,
}

impl Journal {
    /// Opens this user's.
    ///
    /// # Errors
    /// Neither `XDG_STATE_HOME` nor `HOME` says where it is.
    pub(super) fn of_user() -> Result<Journal, Failure> {
        let directory = thalweg_client::wire::trust::state_directory();
        let directory =
            directory.ok_or_else(|| Failure::failed("neither XDG_STATE_HOME nor HOME is set, so changes cannot be remembered"))?;
        Ok(Journal { path: directory.join("doctor.json") })
    }

    /// Returns its changes, the earliest first.
    ///
    /// # Errors
    /// The file exists and cannot be used.
    pub(super) fn read(&self) -> Result<Vec<Made>, Failure> {
        let advice = "undo by hand the changes that it names, and remove it";
        let failed = |why: String| Failure::failed(format!("{}: {why}: {advice}", self.path.display()));
        let text = match std::fs::read(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            read => read.map_err(|error| failed(error.to_string()))?,
        };
        let document: Document = serde_json::from_slice(&text).map_err(|error| failed(error.to_string()))?;
        match document.schema == SCHEMA {
            true => Ok(document.made),
            false => Err(failed(format!("its schema is {:?}, expected {SCHEMA:?}", document.schema))),
        }
    }

    /// Writes its changes; without any, removes the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&self, made: &[Made]) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::failed(format!("{}: cannot remember the changes made: {error}", self.path.display()));
        let directory = self.path.parent().unwrap_or(&self.path);
        if made.is_empty() {
            let removed = std::fs::remove_file(&self.path);
            // Others may be in it; then it stays.
            let _ = std::fs::remove_dir(directory);
            return removed.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) }).map_err(failed);
        }
        private::make_directory(directory).map_err(failed)?;
        let document = Document { schema: SCHEMA.to_owned(), made: made.to_vec() };
        let text = serde_json::to_string_pretty(&document).map_err(|error| failed(error.into()))?;
        durable::replace(&text, &self.path).map_err(failed)
    }
}
