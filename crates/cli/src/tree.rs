//! Copying a tree: what is in it, and workers that copy its files while one error does not stop the others.
//!
//! Directories are made first, parents before children, then files are copied by several workers at once, in order of their
//! names; symbolic links are made again as they are, whatever they point to. What cannot be copied (a device, a FIFO) is told
//! and counts as not done: a tree that lacks something must not look like a success.

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What is below a directory, as paths relative to it.
#[derive(Debug, Default)]
pub struct Tree {
    /// Directories, parents before children, without the directory itself.
    pub directories: Vec<OsString>,
    /// Files and their sizes.
    pub files: Vec<(OsString, u64)>,
    /// Symbolic links and their targets, which are copied as they are.
    pub links: Vec<(OsString, Vec<u8>)>,
    /// What is none of these, and why it is not copied.
    pub others: Vec<String>,
}

impl Tree {
    /// The bytes of all files.
    pub fn size_bytes(&self) -> u64 {
        self.files.iter().map(|(_, size)| size).sum()
    }

    /// Sorts what was found: parents come before children, because they are shorter prefixes of them.
    pub fn sorted(mut self) -> Tree {
        self.directories.sort();
        self.files.sort();
        self.links.sort();
        self
    }
}

/// `base/name`, or `name` where there is no base.
pub fn join(base: &OsStr, name: &OsStr) -> OsString {
    let mut joined = base.to_owned();
    if !base.is_empty() && !base.as_bytes().ends_with(b"/") {
        joined.push("/");
    }
    joined.push(name);
    joined
}

/// What is below a local directory. `follow`: symbolic links stand for what they point to.
pub fn walk(root: &Path, follow: bool) -> Result<Tree, Failure> {
    let mut tree = Tree::default();
    // Which directories, by device and inode, are above the one being read: a link to one of them has no end.
    let mut open = vec![(OsString::new(), Vec::new())];
    while let Some((directory, mut above)) = open.pop() {
        let path = if directory.is_empty() { root.to_owned() } else { root.join(&directory) };
        let error = |e: std::io::Error| Failure::failed(format!("{}: {e}", path.display()));
        above.push(identity(&std::fs::metadata(&path).map_err(error)?));
        for entry in std::fs::read_dir(&path).map_err(error)? {
            let entry = entry.map_err(error)?;
            let here = join(&directory, &entry.file_name());
            let found = if follow { std::fs::metadata(entry.path()) } else { entry.metadata() };
            let attributes = match found {
                Ok(attributes) => attributes,
                Err(e) => {
                    tree.others.push(format!("{}: {e}", entry.path().display()));
                    continue;
                }
            };
            if attributes.is_dir() {
                if above.contains(&identity(&attributes)) {
                    tree.others.push(format!("{}: a link to a directory above it", entry.path().display()));
                    continue;
                }
                tree.directories.push(here.clone());
                open.push((here, above.clone()));
            } else if attributes.is_file() {
                tree.files.push((here, attributes.len()));
            } else if attributes.is_symlink() {
                let target = std::fs::read_link(entry.path()).map_err(|e| Failure::failed(format!("{}: {e}", entry.path().display())))?;
                tree.links.push((here, target.into_os_string().into_encoded_bytes()));
            } else {
                tree.others.push(format!("{}: neither a file nor a directory", entry.path().display()));
            }
        }
    }
    Ok(tree.sorted())
}

fn identity(attributes: &std::fs::Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (attributes.dev(), attributes.ino())
}

/// Does `copy` for every file, `workers` at a time. Gives what went wrong, in order of the files.
pub fn each<'a>(
    files: &'a [(OsString, u64)],
    workers: usize,
    interrupt: &Interrupt,
    copy: impl Fn(&'a OsStr) -> Result<(), Failure> + Sync,
) -> Result<Vec<String>, Failure> {
    let next = AtomicUsize::new(0);
    let wrong: Mutex<Vec<(usize, String)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..workers.clamp(1, files.len().max(1)) {
            scope.spawn(|| {
                while !interrupt.is_raised() {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some((file, _)) = files.get(at) else { return };
                    if let Err(Failure::Failed(why) | Failure::Usage(why)) = copy(file) {
                        wrong.lock().unwrap_or_else(PoisonError::into_inner).push((at, why));
                    }
                }
            });
        }
    });
    if interrupt.is_raised() {
        return Err(Failure::Interrupted("interrupted: the tree is not whole".to_owned()));
    }
    let mut wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    wrong.sort();
    Ok(wrong.into_iter().map(|(_, why)| why).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_finds_everything_and_ends() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("a/b")).unwrap();
        std::fs::write(root.path().join("a/b/file"), "12345").unwrap();
        std::fs::write(root.path().join("zero"), "").unwrap();
        std::os::unix::fs::symlink("..", root.path().join("a/up")).unwrap();
        let tree = walk(root.path(), false).unwrap();
        assert_eq!(tree.directories, ["a", "a/b"]);
        assert_eq!(tree.files, [("a/b/file".into(), 5), ("zero".into(), 0)]);
        assert_eq!(tree.size_bytes(), 5);
        assert_eq!((tree.links, tree.others), (vec![("a/up".into(), b"..".to_vec())], Vec::new()));
        let tree = walk(root.path(), true).unwrap();
        assert!(tree.others[0].contains("above"), "{:?}", tree.others);
    }

    #[test]
    fn one_error_does_not_stop_the_others() {
        let files: Vec<(OsString, u64)> = (0..100).map(|i| (format!("{i:03}").into(), 0)).collect();
        let done = AtomicUsize::new(0);
        let wrong = each(&files, 4, &Interrupt::never(), |file| {
            done.fetch_add(1, Ordering::Relaxed);
            if file == "042" || file == "007" { Err(Failure::failed(file.to_string_lossy())) } else { Ok(()) }
        })
        .unwrap();
        assert_eq!(done.into_inner(), 100);
        assert_eq!(wrong, ["007", "042"]);
    }
}
