//! Files of servers are private to their user, whatever the umask: files of mode 600 in directories of mode 700.
//!
//! The metadata's files hold names, link targets and attributes, so reading them is reading the store without its credential. Modes are set
//! at creation: a later chmod would leave a moment in which another user can open the file. Earlier releases created files according to the
//! umask; [`close`] repairs those when a server starts.

use rustix::fs::{Mode, OFlags};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Result;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The permission bits of group and others.
const OTHERS: u32 = 0o077;

/// Options that open a file and create it with mode 600 if missing.
#[must_use]
pub fn files() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Creates a directory and its missing parents with mode 700.
///
/// # Errors
/// The file system's.
pub fn make_directory(path: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Removes others' permissions from those files and directories in `directory` whose names `is_ours` accepts, and from the directory itself
/// if it holds nothing else. Returns a sentence on what was repaired or could not be; `None` if nothing was open. Symbolic links are not
/// followed; files with a second name or another owner are left alone, since in an open directory they may belong to others.
pub fn close(directory: &Path, is_ours: impl Fn(&str) -> bool) -> Option<String> {
    let shown = directory.display();
    let names = || Some(std::fs::read_dir(directory).ok()?.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()));
    let (mut closed, mut left) = (Vec::new(), Vec::new());
    let mut note = |what: String, done: Option<bool>| match done {
        Some(true) => closed.push(what),
        Some(false) => left.push(what),
        None => {}
    };
    // The directory first, so that other users can add no further names.
    if names()?.all(|name| is_ours(&name)) {
        note("the directory".to_owned(), close_one(directory, OFlags::DIRECTORY));
    }
    for name in names()?.filter(|name| is_ours(name)) {
        let done = close_one(&directory.join(&name), OFlags::NONBLOCK);
        note(name, done);
    }
    let some = |names: &[String]| match names {
        [first, rest @ ..] if rest.len() > 2 => format!("{first} and {} others", rest.len()),
        names => names.join(", "),
    };
    match (closed.is_empty(), left.is_empty()) {
        (true, true) => None,
        (false, true) => Some(format!("{shown} was open to other users ({}): closed", some(&closed))),
        (_, false) => Some(format!("{shown} is open to other users ({}): remove their permissions with chmod go=", some(&left))),
    }
}

/// Removes others' permissions from one file or directory; returns whether that succeeded, or `None` if there were none to remove.
fn close_one(path: &Path, flags: OFlags) -> Option<bool> {
    let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(opened) => File::from(opened),
        // A symbolic link, or removed in the meantime.
        Err(_) => return None,
    };
    let about = opened.metadata().ok()?;
    if about.mode() & OTHERS == 0 {
        return None;
    }
    let is_ours = about.uid() == rustix::process::geteuid().as_raw() && (about.is_dir() || about.nlink() == 1);
    Some(is_ours && rustix::fs::fchmod(&opened, Mode::from_raw_mode(about.mode() & 0o7777 & !OTHERS)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn what_was_open_to_others_is_closed_and_said_and_what_is_not_ours_is_left_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let [directory, elsewhere] = ["metadata", "elsewhere"].map(|name| scratch.path().join(name));
        make_directory(&directory).unwrap();
        assert_eq!((mode(&directory), close(&directory, |_| true)), (0o700, None));
        for name in ["log", "names", "theirs"] {
            std::fs::write(directory.join(name), "x").unwrap();
            std::fs::set_permissions(directory.join(name), PermissionsExt::from_mode(0o644)).unwrap();
        }
        std::fs::write(&elsewhere, "x").unwrap();
        std::fs::set_permissions(&elsewhere, PermissionsExt::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(&elsewhere, directory.join("link")).unwrap();
        std::fs::hard_link(&elsewhere, directory.join("second-name")).unwrap();
        std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o755)).unwrap();
        let is_ours = |name: &str| name != "theirs";
        let said = close(&directory, is_ours).expect("it was open");
        assert!(said.contains("chmod") && said.contains("second-name"), "{said}");
        assert_eq!((mode(&directory), mode(&directory.join("log")), mode(&directory.join("names"))), (0o755, 0o600, 0o600));
        assert_eq!((mode(&directory.join("theirs")), mode(&elsewhere)), (0o644, 0o644));
        ["second-name", "link", "theirs"].iter().for_each(|name| std::fs::remove_file(directory.join(name)).unwrap());
        let said = close(&directory, is_ours).expect("the directory is");
        assert!(said.contains("closed") && mode(&directory) == 0o700, "{said}");
        assert_eq!(close(&directory, is_ours), None);
    }
}
