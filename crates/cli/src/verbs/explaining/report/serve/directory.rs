//! The recordings of a directory, as they are now. Nothing outside of it is read: a symbolic link, at the top or within a recording, is not
//! followed.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use thalweg_report::RecordingProgress;

/// Bound: recordings listed. Instead: the list by pages.
pub(super) const MAX_LISTED: usize = 2_000;
/// Bound: entries of one recording, which has a few for each host.
const MAX_ENTRIES: usize = 100_000;
/// Depth of a recording's directories.
const MAX_DEPTH: usize = 6;
/// A recording without an end was written to within this time, or its recorder is taken to be gone: recorders write several times a second
/// while anything happens. Instead: a lock that recorders hold.
const SILENCE: Duration = Duration::from_secs(60);
/// Bound: bytes of `meta.json` that are read to find the end.
const MAX_META_BYTES: u64 = 4 << 20;

/// A recording, as it is now.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: OsString,
    pub(super) progress: RecordingProgress,
    pub(super) stamp: Stamp,
}

/// What changes when a recording does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) bytes: u64,
    pub(super) written: SystemTime,
}

/// The directory that is served.
pub(super) struct Directory(PathBuf);

impl Directory {
    /// Opens it.
    pub(super) fn open(path: &Path) -> std::io::Result<Directory> {
        std::fs::read_dir(path)?;
        path.canonicalize().map(Directory)
    }

    /// Returns its path.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the recordings, the last written first, and whether there are more than are listed.
    pub(super) fn entries(&self) -> std::io::Result<(Vec<Entry>, bool)> {
        let names = std::fs::read_dir(&self.0)?.flatten().map(|entry| entry.file_name());
        let mut entries: Vec<Entry> = names.filter_map(|name| self.entry(name)).collect();
        entries.sort_by(|a, b| b.stamp.written.cmp(&a.stamp.written).then_with(|| a.name.cmp(&b.name)));
        let has_more = entries.len() > MAX_LISTED;
        entries.truncate(MAX_LISTED);
        Ok((entries, has_more))
    }

    /// Returns a recording; `None` if there is none of this name.
    fn entry(&self, name: OsString) -> Option<Entry> {
        let path = self.0.join(&name);
        let meta = path.join("meta.json");
        if !path.symlink_metadata().ok()?.is_dir() || !meta.symlink_metadata().ok()?.is_file() {
            return None;
        }
        let found = contents(&path).unwrap_or(Contents { bytes: 0, written: SystemTime::UNIX_EPOCH });
        let stamp = Stamp { bytes: found.bytes, written: found.written };
        let is_whole = !path.join("segments").is_dir() || has_end(&meta);
        let since = |at: SystemTime| at.elapsed().unwrap_or_default();
        let begun = meta.metadata().and_then(|meta| meta.modified()).unwrap_or(found.written);
        let progress = match since(found.written) {
            _ if is_whole => RecordingProgress::Whole,
            silence if silence > SILENCE => RecordingProgress::Abandoned,
            _ => RecordingProgress::BeingRecorded(since(begun)),
        };
        Some(Entry { name, progress, stamp })
    }

    /// Returns the path of a recording to read.
    ///
    /// # Errors
    /// There is none of this name, or it contains a symbolic link.
    pub(super) fn recording(&self, name: &OsString) -> Result<(PathBuf, Entry), String> {
        let shown = name.to_string_lossy();
        let entry = self.entry(name.clone()).ok_or_else(|| format!("{shown}: there is no recording of this name"))?;
        let path = self.0.join(name);
        contents(&path).map_err(|problem| format!("{shown}: {problem}"))?;
        Ok((path, entry))
    }
}

/// Whether a recording's `meta.json` has an end.
fn has_end(meta: &Path) -> bool {
    let Ok(file) = std::fs::File::open(meta) else { return false };
    serde_json::from_reader::<_, serde_json::Value>(file.take(MAX_META_BYTES)).is_ok_and(|meta| !meta["end"].is_null())
}

struct Contents {
    bytes: u64,
    written: SystemTime,
}

/// Returns the size of a recording's files and when the last was written.
fn contents(path: &Path) -> Result<Contents, String> {
    let mut found = Contents { bytes: 0, written: SystemTime::UNIX_EPOCH };
    let mut left = MAX_ENTRIES;
    let mut open = vec![(path.to_owned(), 0)];
    while let Some((directory, depth)) = open.pop() {
        // A recorder that finishes removes files meanwhile.
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            left = left.checked_sub(1).ok_or("has too many files for a recording")?;
            if metadata.is_symlink() {
                return Err(format!("contains the symbolic link {}, which is not followed", entry.file_name().to_string_lossy()));
            }
            if metadata.is_dir() {
                if depth == MAX_DEPTH {
                    return Err("has too many levels of directories for a recording".to_owned());
                }
                open.push((entry.path(), depth + 1));
                continue;
            }
            found.bytes += metadata.len();
            found.written = found.written.max(metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH));
        }
    }
    Ok(found)
}
