//! Results of earlier tunings, for commands between two endpoints and for copies of a store: a small file of the user, `tuned.json` in the
//! state directory.
//!
//! A remembered setting is the first one a tuner tries, and counts only when a run or a window confirms it. So a file that is old, or
//! another user's, costs a run or two windows. An unreadable file is ignored with a note, and replaced.

use crate::document::Setting;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use thalweg_base::release::other_schema;

/// Bound: endpoints remembered; the least recently written are dropped.
const ENDPOINTS: usize = 256;
/// Bound: bytes read of the file.
const MOST_BYTES: u64 = 1 << 20;
const SCHEMA: &str = "thalweg.tuned/1";

/// Results of earlier tunings; see the module documentation.
#[derive(Clone, Debug)]
pub struct History {
    path: PathBuf,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Document {
    schema: String,
    /// Number of writes; each endpoint records that of its last one.
    writes: u64,
    endpoints: BTreeMap<String, Endpoint>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Endpoint {
    write: u64,
    values: Setting,
}

impl History {
    /// Opens this user's history, below `$XDG_STATE_HOME` or `~/.local/state`. `None`: neither is known.
    pub fn of_user() -> Option<History> {
        Some(History::at(&thalweg_client::wire::trust::state_directory()?.join("tuned.json")))
    }

    /// Opens the history in this file, which need not exist.
    pub fn at(path: &Path) -> History {
        History { path: path.to_owned() }
    }

    /// Returns the setting remembered for an endpoint; empty if there is none.
    ///
    /// # Errors
    /// The file exists and cannot be used; the text names the file and the reason, for a note.
    pub fn of(&self, endpoint: &str) -> Result<Setting, String> {
        let mut document = self.read()?;
        Ok(document.endpoints.remove(endpoint).map(|endpoint| endpoint.values).unwrap_or_default())
    }

    /// Remembers a setting; an empty one forgets the endpoint. An unreadable file is replaced.
    ///
    /// # Errors
    /// The file cannot be written; the text names the file and the reason, for a note.
    pub fn remember(&self, endpoint: &str, values: &Setting) -> Result<(), String> {
        let mut document = self.read().unwrap_or_default();
        let was_known = document.endpoints.remove(endpoint).is_some();
        if values.is_empty() && !was_known {
            return Ok(());
        }
        document.schema = SCHEMA.to_owned();
        document.writes = document.writes.saturating_add(1);
        if !values.is_empty() {
            document.endpoints.insert(endpoint.to_owned(), Endpoint { write: document.writes, values: values.clone() });
        }
        while document.endpoints.len() > ENDPOINTS {
            let oldest = document.endpoints.iter().min_by_key(|(_, endpoint)| endpoint.write).map(|(name, _)| name.clone());
            oldest.map(|name| document.endpoints.remove(&name));
        }
        self.write(&document).map_err(|e| format!("{}: {e}; the result is not remembered", self.path.display()))
    }

    fn read(&self) -> Result<Document, String> {
        let unusable = |why: String| format!("{}: {why}; it is ignored", self.path.display());
        let length = match std::fs::metadata(&self.path) {
            Ok(found) => found.len(),
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Document::default()),
            Err(e) => return Err(unusable(e.to_string())),
        };
        if length > MOST_BYTES {
            return Err(unusable(format!("has {length} bytes, more than the maximum of {MOST_BYTES}")));
        }
        let text = std::fs::read(&self.path).map_err(|e| unusable(e.to_string()))?;
        let document: Document = serde_json::from_slice(&text).map_err(|e| unusable(e.to_string()))?;
        if document.schema != SCHEMA {
            return Err(unusable(other_schema(&document.schema, SCHEMA)));
        }
        Ok(document)
    }

    /// Writes atomically: to a draft, then renamed.
    fn write(&self, document: &Document) -> std::io::Result<()> {
        if let Some(directory) = self.path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let draft = self.path.with_extension(format!("{}.partial", std::process::id()));
        std::fs::write(&draft, serde_json::to_vec(document).map_err(std::io::Error::other)?)?;
        std::fs::rename(&draft, &self.path).inspect_err(|_| drop(std::fs::remove_file(&draft)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(name: &str, value: &str) -> Setting {
        Setting::from([(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn what_was_found_is_there_again_and_nothing_found_is_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let history = History::at(&directory.path().join("deep/tuned.json"));
        assert!(history.of("a").unwrap().is_empty());
        history.remember("a", &setting("streams", "4")).unwrap();
        history.remember("b", &setting("depth", "16")).unwrap();
        assert_eq!(history.of("a").unwrap(), setting("streams", "4"));
        history.remember("a", &Setting::new()).unwrap();
        assert!(history.of("a").unwrap().is_empty());
        assert_eq!(history.of("b").unwrap().len(), 1);
        assert_eq!(std::fs::read_dir(directory.path().join("deep")).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn a_damaged_or_foreign_file_is_a_note_and_is_written_anew() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tuned.json");
        for text in ["", "{", "{\"schema\":\"other/1\",\"writes\":0,\"endpoints\":{}}", "[1,2]", "\u{0}\u{0}"] {
            std::fs::write(&path, text).unwrap();
            let history = History::at(&path);
            let note = history.of("a").unwrap_err();
            assert!(note.starts_with(&path.display().to_string()), "{note}");
            history.remember("a", &setting("streams", "2")).unwrap();
            assert_eq!(history.of("a").unwrap()["streams"], "2");
        }
    }

    #[test]
    fn only_so_many_endpoints_are_remembered() {
        let directory = tempfile::tempdir().unwrap();
        let history = History::at(&directory.path().join("tuned.json"));
        for n in 0..ENDPOINTS + 3 {
            history.remember(&n.to_string(), &setting("streams", "2")).unwrap();
        }
        assert!(history.of("0").unwrap().is_empty() && !history.of("3").unwrap().is_empty());
    }
}
