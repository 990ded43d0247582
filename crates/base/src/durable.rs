//! Files that survive power loss whole or not at all: written as a draft, synced, published by rename, and then the directory is synced.

use crate::private;
use std::fs::File;
use std::io::{Result, Write};
use std::path::Path;

/// Syncs `file`, renames it from `draft` to `path` in the same directory, replacing any file there, and syncs the directory. Removes the
/// draft on failure.
pub fn publish(file: &File, draft: &Path, path: &Path) -> Result<()> {
    let published = file.sync_data().and_then(|()| std::fs::rename(draft, path));
    published.inspect_err(|_| drop(std::fs::remove_file(draft)))?;
    sync_parent(path)
}

/// Writes `text` durably to a file of mode 600. Replaces an existing `draft`, which is left over or a symbolic link that must not be
/// followed; the caller ensures that no one else uses the name `draft`.
pub fn write(text: &str, draft: &Path, path: &Path) -> Result<()> {
    match std::fs::remove_file(draft) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = private::files().write(true).create_new(true).open(draft)?;
    file.write_all(text.as_bytes()).inspect_err(|_| drop(std::fs::remove_file(draft)))?;
    publish(&file, draft, path)
}

/// Replaces the text of `path` durably. Only for directories that no other process writes to.
pub fn replace(text: &str, path: &Path) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    write(text, &path.with_file_name(format!(".{name}.{}", std::process::id())), path)
}

/// Returns whether the file already holds this text; then it need not be rewritten, which could fail on a full disk.
pub fn is_there(text: &str, path: &Path) -> bool {
    std::fs::read_to_string(path).is_ok_and(|there| there == text)
}

/// Syncs a directory, which makes names created and removed in it durable.
pub fn sync_directory(directory: &Path) -> Result<()> {
    File::open(directory)?.sync_all()
}

/// Syncs the directory that contains `path`.
pub fn sync_parent(path: &Path) -> Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    sync_directory(parent.unwrap_or(Path::new(".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_that_was_left_behind_is_not_written_through_and_a_failure_leaves_none() {
        let directory = tempfile::tempdir().unwrap();
        let [path, draft, other] = ["file", "draft", "other"].map(|name| directory.path().join(name));
        std::fs::write(&other, "mine").unwrap();
        std::os::unix::fs::symlink(&other, &draft).unwrap();
        write("one", &draft, &path).unwrap();
        write("two", &draft, &path).unwrap();
        assert_eq!([&path, &other].map(|path| std::fs::read_to_string(path).unwrap()), ["two", "mine"]);
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(write("three", &draft, &path).is_err());
        assert!(!draft.exists());
    }
}
