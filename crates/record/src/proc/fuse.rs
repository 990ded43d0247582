//! Which process serves a FUSE mount: the one with the mount's connection open, if this user may see it.

use super::files::FUSE_DEVICE;
use super::processes;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use thalweg_base::proc::mounts;

/// Returns the processes that serve FUSE mounts, by the minor number of the mount's device; only those whose descriptors
/// may be read. Kernels before 6.16 do not tell which connection a descriptor is of: then a process is returned only if
/// it is the only one, for every mount asked for, or the only one whose command line names the mount.
pub(super) fn servers(minors: &[u32]) -> BTreeMap<u32, u32> {
    let mut found = BTreeMap::new();
    let mut untold = Vec::new();
    for pid in processes::numbers_in("/proc") {
        for fd in processes::numbers_in(&format!("/proc/{pid}/fd")) {
            if !fs::read_link(format!("/proc/{pid}/fd/{fd}")).is_ok_and(|link| link.as_os_str() == FUSE_DEVICE) {
                continue;
            }
            match fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).ok().as_deref().and_then(connection) {
                // A process that was forked later may have the descriptor too: the older one serves.
                Some(minor) => drop(found.entry(minor).or_insert(pid)),
                None => untold.push(pid),
            }
        }
    }
    untold.dedup();
    if found.is_empty() {
        // One that serves them all; or the only one that was told where to mount.
        match untold.as_slice() {
            [pid] => return minors.iter().map(|minor| (*minor, *pid)).collect(),
            several => return by_mount_point(several, minors),
        }
    }
    found.retain(|minor, _| minors.contains(minor));
    found
}

/// Returns the only process of these whose command line names where each file system is mounted.
fn by_mount_point(pids: &[u32], minors: &[u32]) -> BTreeMap<u32, u32> {
    let mounts = mounts::here().unwrap_or_default();
    let words = |pid: u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let names = |pid: u32, point: &[u8]| words(pid).split(|byte| *byte == 0).any(|word| word == point);
    let mut found = BTreeMap::new();
    for mount in mounts.iter().filter(|mount| mount.kind.starts_with("fuse") && minors.contains(&mount.device.1)) {
        let mut named = pids.iter().filter(|pid| names(**pid, mount.point.as_os_str().as_bytes()));
        if let (Some(pid), None) = (named.next(), named.next()) {
            found.insert(mount.device.1, *pid);
        }
    }
    found
}

/// Parses the connection's number, which is the minor number of the mount's device.
fn connection(fdinfo: &str) -> Option<u32> {
    fdinfo.lines().find_map(|line| line.strip_prefix("fuse_connection:")?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptors_connection_is_read() {
        assert_eq!(connection("pos:\t0\nflags:\t02100002\nino:\t90\nfuse_connection:\t40\n"), Some(40));
        assert_eq!(connection("pos:\t0\nflags:\t02100002\n"), None);
    }

    #[test]
    fn nobody_serves_a_mount_that_is_not_there() {
        assert!(!servers(&[u32::MAX]).contains_key(&(u32::MAX - 1)));
    }
}
