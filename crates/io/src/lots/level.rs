//! Determines the level a file system can provide: whether anyone else writes to it, and whether preallocated space is really
//! kept.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thalweg_base::proc::mounts::{self, Mount};
use thalweg_wire::protocol::lots::Level;

/// ext4 (with ext2 and ext3) and XFS: a preallocated block belongs to its file. btrfs, ZFS and overlays copy on write; tmpfs
/// depends on free memory.
const EXT4: u64 = 0xEF53;
const XFS: u64 = 0x5846_5342;

/// Files of a store beside its targets: `store.toml`, credentials.
const STORE_FILE: &str = "store.toml";
const SMALL_BYTES: u64 = 64 << 10;
/// A file in the metadata's directory.
const METADATA: &str = "metadata.redb";

/// Returns the mount of `directory`, as seen by this process.
pub(super) fn mount_of(directory: &Path, device: u64) -> Option<Mount> {
    let directory = directory.canonicalize().ok()?;
    let mut mounts = mounts::here().ok()?;
    mounts.retain(|mount| mount.device == (libc::major(device), libc::minor(device)));
    mounts::holding(&mounts, &directory).cloned()
}

/// Returns the highest level in `directory` without changing the file system; `targets`: this process's targets on it.
pub(super) fn of(directory: &Path, device: u64, targets: &[&Path]) -> Level {
    if is_own(directory, device, targets) {
        return Level::Own;
    }
    match kind(directory) {
        Some(EXT4 | XFS) => Level::Ballast,
        _ => Level::Admission,
    }
}

fn kind(directory: &Path) -> Option<u64> {
    Some(rustix::fs::statfs(directory).ok()?.f_type as u64 & 0xffff_ffff)
}

/// Whether it is ext4 proper, whose reserved blocks can be changed while it is mounted.
pub(super) fn is_ext4(directory: &Path, device: u64) -> bool {
    kind(directory) == Some(EXT4) && mount_of(directory, device).is_some_and(|mount| mount.kind == "ext4")
}

/// Whether only this store has files on the file system, from its root down to the targets.
fn is_own(directory: &Path, device: u64, targets: &[&Path]) -> bool {
    // If only a subtree is visible here, the rest may hold anything.
    let Some(mount) = mount_of(directory, device).filter(|mount| mount.root == Path::new("/")) else { return false };
    let targets: Vec<PathBuf> = targets.iter().filter_map(|target| target.canonicalize().ok()).collect();
    is_all_ours(&mount.point, device, &targets).unwrap_or(false)
}

fn is_all_ours(directory: &Path, device: u64, targets: &[PathBuf]) -> std::io::Result<bool> {
    if targets.iter().any(|target| target == directory) || directory.join(METADATA).is_file() {
        return Ok(true);
    }
    let is_stores = directory.join(STORE_FILE).is_file();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let (path, found) = (entry.path(), entry.path().symlink_metadata()?);
        let is_ours = match found.is_dir() {
            true if entry.file_name() == "lost+found" => true,
            // On another file system.
            true if found.dev() != device => true,
            true => {
                targets.iter().any(|target| target.starts_with(&path)) && is_all_ours(&path, device, targets)?
                    || path.join(METADATA).is_file()
            }
            false => is_stores && is_small(&found),
        };
        if !is_ours {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_small(found: &Metadata) -> bool {
    found.is_file() && found.len() <= SMALL_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_the_stores_own_only_if_all_that_leads_to_its_targets_is() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let device = root.metadata().unwrap().dev();
        let targets = ["a/io0", "a/io1"].map(|name| root.join(name));
        let is_own = |targets: &[PathBuf]| is_all_ours(&root, device, targets).unwrap();
        for target in &targets {
            std::fs::create_dir_all(target.join("datafiles")).unwrap();
        }
        std::fs::create_dir(root.join("lost+found")).unwrap();
        assert!(is_own(&targets));
        assert!(!is_own(&targets[..1]), "a target that another process serves");
        std::fs::create_dir(root.join("a/metadata")).unwrap();
        assert!(!is_own(&targets));
        std::fs::write(root.join("a/metadata").join(METADATA), "").unwrap();
        assert!(is_own(&targets));
        std::fs::write(root.join("a/notes"), "mine").unwrap();
        assert!(!is_own(&targets));
        std::fs::write(root.join("a").join(STORE_FILE), "").unwrap();
        assert!(is_own(&targets), "small files beside store.toml are the store's");
        std::fs::create_dir(root.join("home")).unwrap();
        assert!(!is_own(&targets));
    }
}
