//! The shares of a target on stable storage: `thalweg-lots.toml`, a small text file that is replaced whole.
//!
//! A damaged file, or one of a later release, prevents serving the target: its promises would otherwise be given away. A file
//! older than the metadata (a restored copy, a crash in between) is not damage: the metadata's next
//! [`thalweg_wire::protocol::lots::ShareRequest::Keep`] corrects it, since each carries the complete share.

use super::deadline::Deadline;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;
use thalweg_base::durable;
use thalweg_base::release;
use thalweg_wire::protocol::io::LotId;
use thalweg_wire::protocol::lots::{Level, LotShare};
use thalweg_wire::{Error, ErrorKind, Result};

const NAME: &str = "thalweg-lots.toml";
/// Version of the file.
const FORMAT: u32 = 1;

/// The contents of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShareFile {
    format: u32,
    /// ext4's reserved blocks before any share was held by them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_blocks_before: Option<u64>,
    #[serde(default, rename = "share")]
    pub shares: Vec<StoredShare>,
}

/// One share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredShare {
    lot: LotId,
    name: String,
    owner: String,
    share_bytes: u64,
    size_bytes: u64,
    elastic: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least: Option<Level>,
    /// Its level when this was written.
    pub level: Level,
    pub deadline: Deadline,
}

impl StoredShare {
    pub(super) fn new(share: &LotShare, least: Option<Level>, level: Level, deadline: Deadline) -> StoredShare {
        let LotShare { lot, share_bytes, size_bytes, elastic, .. } = *share;
        StoredShare { lot, name: share.name.clone(), owner: share.owner.clone(), share_bytes, size_bytes, elastic, least, level, deadline }
    }

    pub(super) fn share(&self) -> LotShare {
        let StoredShare { lot, share_bytes, size_bytes, elastic, .. } = *self;
        let until_ns = self.deadline.until_ns;
        LotShare { lot, name: self.name.clone(), owner: self.owner.clone(), share_bytes, size_bytes, until_ns, elastic }
    }
}

impl ShareFile {
    pub(super) fn new(shares: Vec<StoredShare>, reserved_blocks_before: Option<u64>) -> ShareFile {
        ShareFile { format: FORMAT, reserved_blocks_before, shares }
    }

    /// Reads a target's shares; none, if there is no file.
    ///
    /// # Errors
    /// When the file cannot be read: [`ErrorKind::Version`] for a later release's.
    pub(super) fn read(directory: &Path) -> Result<ShareFile> {
        let path = directory.join(NAME);
        let text = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(ShareFile::new(Vec::new(), None)),
            Err(e) => return Err(Error::system(path.display(), e)),
        };
        let damaged = |problem: &str| {
            let what = "the target is not served, because its promises to lots are unknown";
            let advice = "restore the file; or remove it, and the metadata service will send each lot's share again";
            Error::new(ErrorKind::Invalid, format!("{}: not a list of lots: {problem}: {what}; {advice}", path.display()))
        };
        let text = String::from_utf8(text).map_err(|_| damaged("it is not text"))?;
        // Check the version first: a later one may have unknown fields.
        let table: toml::Table = toml::from_str(&text).map_err(|e| damaged(e.message()))?;
        match table.get("format").and_then(toml::Value::as_integer) {
            Some(found) if found == i64::from(FORMAT) => {}
            Some(found) => {
                let made_by = table.get("made_by").and_then(toml::Value::as_str);
                let problem = release::other_format("a list of lots", found, FORMAT, made_by);
                return Err(Error::new(ErrorKind::Version, format!("{}: {problem}", path.display())));
            }
            None => return Err(damaged("expected `format = NUMBER`")),
        }
        let kept: ShareFile = toml::from_str(&text).map_err(|e| damaged(e.message()))?;
        let mut lots = BTreeSet::new();
        match kept.shares.iter().find(|share| !lots.insert(share.lot) || share.share_bytes > share.size_bytes.next_multiple_of(4096)) {
            Some(share) => Err(damaged(&format!("lot {} is listed twice, or has a share larger than itself", share.lot))),
            None => Ok(kept),
        }
    }

    /// Writes the shares to stable storage.
    pub(super) fn write(&self, directory: &Path) -> Result<()> {
        let text = toml::to_string(self).map_err(|e| Error::new(ErrorKind::Io, e.to_string()))?;
        let path = directory.join(NAME);
        durable::replace(&text, &path).map_err(|e| Error::system(path.display(), e))
    }
}

#[cfg(test)]
mod tests {
    use super::super::deadline::fake::Fake;
    use super::*;

    #[test]
    fn what_is_kept_is_read_again_and_damage_and_later_releases_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let empty = ShareFile::new(Vec::new(), None);
        assert_eq!(ShareFile::read(directory.path()).unwrap(), empty);
        let share = LotShare {
            lot: LotId(7),
            name: "a \"name\"".into(),
            owner: "ada".into(),
            share_bytes: 1 << 40,
            size_bytes: i64::MAX as u64,
            until_ns: i64::MAX,
            elastic: true,
        };
        let kept = StoredShare::new(&share, Some(Level::Ballast), Level::Own, Deadline::new(i64::MAX, 1, &Fake::new(1, 2, "boot")));
        assert_eq!(kept.share(), share);
        let kept = ShareFile::new(vec![kept], Some(12));
        kept.write(directory.path()).unwrap();
        assert_eq!(ShareFile::read(directory.path()).unwrap(), kept);
        let path = directory.path().join(NAME);
        let text = std::fs::read_to_string(&path).unwrap();
        let newer = text.replace("format = 1", "format = 2\nmore = true");
        let twice = format!("{text}\n{}", &text[text.find("[[share]]").unwrap()..]);
        let cases = [
            (&newer[..], "a list of lots of format 2; this is thalweg"),
            ("", "format = NUMBER"),
            (&text[..text.len() - 9], "not a list"),
            (&twice, "twice"),
        ];
        for (text, expected) in cases {
            std::fs::write(&path, text).unwrap();
            let error = ShareFile::read(directory.path()).unwrap_err();
            assert!(error.message().contains(expected) && error.message().contains(NAME), "{error}");
        }
        std::fs::write(&path, [0xff, 0]).unwrap();
        assert!(ShareFile::read(directory.path()).is_err());
    }
}
