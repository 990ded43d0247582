//! The record of a target's last scrub, in a small file.

use serde::{Deserialize, Serialize};
use std::path::Path;
use thalweg_base::durable;
use thalweg_base::sync::Mutex;
use thalweg_wire::protocol::scrub::ScrubRecord;
use thalweg_wire::{Error, ErrorKind, Result};

const NAME: &str = "thalweg-scrub.toml";
/// Version of the file.
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct RecordFile {
    format: u32,
    scrub: ScrubRecord,
}

/// The last scrub of a target, as far as is known.
pub(crate) struct Record(Mutex<Option<ScrubRecord>>);

impl Record {
    /// Reads it. One that cannot be read is none: nothing but the next scrub depends on it. The schedule of scrubs is not in it: the
    /// command that schedules them sends it.
    pub(crate) fn read(directory: &Path) -> Record {
        let text = std::fs::read_to_string(directory.join(NAME)).ok();
        let read: Option<RecordFile> = text.and_then(|text| toml::from_str(&text).ok());
        Record(Mutex::new(read.filter(|read| read.format == FORMAT).map(|read| ScrubRecord { every_ns: 0, ..read.scrub })))
    }

    pub(crate) fn get(&self) -> Option<ScrubRecord> {
        self.0.lock().clone()
    }

    /// Writes it to stable storage, or without a directory remembers it until the server ends.
    pub(crate) fn set(&self, directory: Option<&Path>, scrub: &ScrubRecord) -> Result<()> {
        let mut known = self.0.lock();
        if let Some(directory) = directory {
            let path = directory.join(NAME);
            let text = toml::to_string(&RecordFile { format: FORMAT, scrub: scrub.clone() });
            let text = text.map_err(|e| Error::new(ErrorKind::Invalid, format!("{}: {e}", path.display())))?;
            durable::replace(&text, &path).map_err(|e| Error::system(path.display(), e))?;
        }
        *known = Some(scrub.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::protocol::scrub::ScrubCursor;

    #[test]
    fn what_is_recorded_is_read_again_and_what_cannot_be_read_is_nothing() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(Record::read(directory.path()).get(), None);
        let scrub =
            ScrubRecord { started_ns: 7, at: Some(ScrubCursor { offset: 4096, ..ScrubCursor::default() }), ..ScrubRecord::default() };
        let record = Record::read(directory.path());
        record.set(None, &scrub).unwrap();
        assert_eq!((record.get(), Record::read(directory.path()).get()), (Some(scrub.clone()), None), "in memory only");
        record.set(Some(directory.path()), &scrub).unwrap();
        assert_eq!(Record::read(directory.path()).get(), Some(scrub.clone()));
        record.set(Some(directory.path()), &ScrubRecord { every_ns: 9, ..scrub.clone() }).unwrap();
        assert_eq!(record.get().unwrap().every_ns, 9);
        assert_eq!(Record::read(directory.path()).get(), Some(scrub), "a schedule ends with its server");
        std::fs::write(directory.path().join(NAME), "format = 2\n").unwrap();
        assert_eq!(Record::read(directory.path()).get(), None);
    }
}
