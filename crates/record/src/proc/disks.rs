//! Disks, named as in /sys.

use std::fs;

/// A whole disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    /// Its name in /sys/block.
    pub name: String,
    /// Its device number.
    pub number: (u32, u32),
}

/// Returns the disk with this device number, or the disk of the partition with it.
pub(crate) fn whole_disk((major, minor): (u32, u32)) -> Option<Disk> {
    let link = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let disk = if link.join("partition").exists() { link.parent()?.to_owned() } else { link };
    let name = disk.file_name()?.to_string_lossy().into_owned();
    let number = fs::read_to_string(disk.join("dev")).ok()?;
    let (major, minor) = number.trim().split_once(':')?;
    Some(Disk { name, number: (major.parse().ok()?, minor.parse().ok()?) })
}
