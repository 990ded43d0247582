//! Information only the running system has: names of devices and file systems, and listening ports. The translator
//! accesses it through [`Facts`], so that it can be tested without a system.

use super::symbols::Symbols;
use super::translate::facts::{Facts, FileSystem, Leaf};
use crate::proc::disks::whole_disk;
use crate::proc::listeners::{listening, namespace};
use crate::profile::Leaves;
use crate::quota::Quota;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use thalweg_base::proc::maps::{self, Maps};
use thalweg_base::proc::mounts::{self, Mount};

/// This machine's information.
#[derive(Debug, Default)]
pub(crate) struct System {
    disks: HashMap<u32, Option<String>>,
    file_systems: HashMap<u32, FileSystem>,
    /// One process in each network namespace.
    namespaces: HashMap<u32, u32>,
    listening: HashMap<u32, HashSet<u16>>,
    quota_groups: HashMap<u32, Option<String>>,
    /// Mapped files, by process and page.
    mapped: HashMap<(u32, u64), Option<String>>,
    /// Names of kernel functions.
    pub symbols: Symbols,
    /// Innermost addresses of samples.
    pub leaves: Leaves,
}

fn major_minor(number: u32) -> (u32, u32) {
    (number >> 20, number & 0xf_ffff)
}

/// Returns the first mount of the file system with this number.
fn mounted(number: u32, mounts: &[Mount]) -> Option<&Mount> {
    mounts.iter().find(|mount| mount.device == major_minor(number))
}

fn packed((major, minor): (u32, u32)) -> u32 {
    major << 20 | minor
}

/// Maximum addresses cached.
const MOST_MAPPED: usize = 4_096;

/// Where the C library keeps semaphores.
const SEMAPHORES: &str = "/dev/shm/sem.";

/// Maximum shared-memory files searched for an inode.
const MOST_SHARED: usize = 1_024;

/// Returns the semaphore with this inode.
fn named_by(inode: u64) -> Option<String> {
    let files = fs::read_dir("/dev/shm").ok()?.take(MOST_SHARED).filter_map(Result::ok);
    let found = files
        .map(|file| file.path())
        .find(|path| path.to_string_lossy().starts_with(SEMAPHORES) && fs::metadata(path).is_ok_and(|metadata| metadata.ino() == inode));
    found.map(|path| path.to_string_lossy().into_owned())
}

/// Returns the file mapped at an address.
fn mapped_file(maps: &Maps, address: u64) -> Option<String> {
    let mapping = maps.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))?;
    let path = mapping.path.to_string_lossy().into_owned();
    // A semaphore's creator maps it under a temporary name.
    if mapping.is_deleted && path.starts_with(SEMAPHORES) {
        return Some(named_by(mapping.inode).unwrap_or(path));
    }
    // (Anonymous shared memory shows as /dev/zero or SYSV.)
    (path.starts_with('/') && !path.starts_with("/dev/zero") && !path.starts_with("/SYSV")).then_some(path)
}

/// Returns the key of a semaphore set or message queue, from its file in /proc/sysvipc.
fn key_of(table: &str, identifier: u32) -> Option<i64> {
    let mut rows = table.lines().skip(1).map(|line| line.split_ascii_whitespace());
    let mut row = rows.find(|row| row.clone().nth(1).and_then(|id| id.parse().ok()) == Some(identifier))?;
    row.next()?.parse().ok()
}

impl System {
    /// Returns the name of a disk whose number is written `MAJOR:MINOR`.
    pub(crate) fn disk_of(&mut self, number: &str) -> Option<String> {
        let (major, minor) = number.split_once(':')?;
        self.disk_name(packed((major.parse().ok()?, minor.parse().ok()?)))
    }

    /// Forgets the listening ports, which change.
    pub(crate) fn refresh(&mut self) {
        self.listening.clear();
        self.quota_groups.clear();
    }
}

impl Facts for System {
    fn disk_name(&mut self, number: u32) -> Option<String> {
        self.disks.entry(number).or_insert_with(|| whole_disk(major_minor(number)).map(|disk| disk.name)).clone()
    }

    fn file_system(&mut self, device: u32) -> FileSystem {
        if let Some(known) = self.file_systems.get(&device) {
            return known.clone();
        }
        let mut found = FileSystem::default();
        let mut source_disk = None;
        let here = mounts::here().unwrap_or_default();
        let mounted_here = mounted(device, &here).cloned().or_else(|| {
            // Another mount namespace: any watched process may have it.
            self.namespaces.values().find_map(|pid| mounted(device, &mounts::of(*pid).unwrap_or_default()).cloned())
        });
        if let Some(mount) = mounted_here {
            found.kind = mount.kind;
            if mount.root == Path::new("/") {
                found.mounted_on = mount.point.to_string_lossy().into_owned();
            }
            if mount.source.starts_with("/dev/") {
                let number = fs::metadata(&mount.source).ok().map(|m| (rustix::fs::major(m.rdev()), rustix::fs::minor(m.rdev())));
                source_disk = number.and_then(whole_disk);
            }
        }
        if let Some(disk) = whole_disk(major_minor(device)).or(source_disk) {
            found.disk_number = packed(disk.number);
            found.disk = disk.name;
        }
        self.file_systems.insert(device, found.clone());
        found
    }

    fn is_listened_on(&mut self, namespace: u32, port: u16) -> bool {
        let pid = self.namespaces.get(&namespace).copied();
        let ports = self
            .listening
            .entry(namespace)
            .or_insert_with(|| pid.map(listening).unwrap_or_default().into_iter().map(|listener| listener.address.port()).collect());
        ports.contains(&port)
    }

    fn is_listened_on_anywhere(&mut self, port: u16) -> bool {
        let namespaces: Vec<u32> = self.namespaces.keys().copied().collect();
        namespaces.into_iter().any(|namespace| self.is_listened_on(namespace, port))
    }

    fn function(&mut self, address: u64) -> &str {
        self.symbols.name(address)
    }

    fn quota_group(&mut self, pid: u32) -> Option<String> {
        self.quota_groups.entry(pid).or_insert_with(|| Quota::of(pid).group()).clone()
    }

    fn mapped_file(&mut self, pid: u32, address: u64) -> Option<String> {
        let key = (pid, address >> 12);
        if self.mapped.len() >= MOST_MAPPED {
            self.mapped.clear();
        }
        let look = || mapped_file(&maps::of(pid).ok()?, address);
        self.mapped.entry(key).or_insert_with(look).clone()
    }

    fn file_size(&mut self, device: u32, inode: u64, path: &str) -> Option<u64> {
        use std::os::unix::fs::MetadataExt;
        let system = self.file_system(device);
        if system.disk_number == 0 && !matches!(system.kind.as_str(), "tmpfs" | "ramfs") {
            return None;
        }
        let found = fs::symlink_metadata(path).ok()?;
        let number = packed((rustix::fs::major(found.dev()), rustix::fs::minor(found.dev())));
        (found.ino() == inode && number == device).then_some(found.len())
    }

    fn system_v(&mut self, what: &str, file: &str, identifier: u32) -> String {
        let text = fs::read_to_string(format!("/proc/sysvipc/{file}")).unwrap_or_default();
        match key_of(&text, identifier) {
            Some(key) => format!("System V {what} {key:#x}/{identifier}"),
            None => format!("System V {what} ?/{identifier}"),
        }
    }

    fn leaf(&mut self, leaf: &Leaf<'_>) -> Option<u32> {
        let program = leaf.in_user.then_some((leaf.pid, leaf.command));
        self.leaves.number(program, leaf.address, leaf.weight_ns)
    }

    fn watching(&mut self, pid: u32) {
        let namespace = namespace(pid).and_then(|link| {
            let text = link.to_string_lossy().into_owned();
            text.strip_prefix("net:[")?.strip_suffix(']')?.parse::<u32>().ok()
        });
        if let Some(namespace) = namespace {
            let old = self.namespaces.get(&namespace).copied();
            if old.is_none_or(|old| !std::path::Path::new(&format!("/proc/{old}")).exists()) {
                self.namespaces.insert(namespace, pid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_by_their_device_number() {
        let mounts =
            mounts::parse(b"36 35 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n40 36 0:35 /sub /srv rw - nfs4 host:/srv rw\n");
        assert_eq!(mounted(254 << 20, &mounts), Some(&mounts[0]));
        assert_eq!(mounted(35, &mounts), Some(&mounts[1]));
        assert_eq!(mounted(36, &mounts), None);
    }

    #[test]
    fn what_is_mapped_and_what_has_a_key_is_found_in_the_kernels_tables() {
        let maps = Maps::parse(b"7f00-8000 rw-s 00000000 00:17 42 /dev/shm/sem.jobs (deleted)\n8000-9000 rw-p 00000000 00:00 0 \n9000-a000 rw-s 0 0:1 1 /dev/zero (deleted)\n");
        assert_eq!(mapped_file(&maps, 0x7f10).as_deref(), Some("/dev/shm/sem.jobs"));
        assert_eq!((mapped_file(&maps, 0x8010), mapped_file(&maps, 0x9010), mapped_file(&maps, 0xb000)), (None, None, None));
        let table =
            "       key      semid perms      nsems\n      4711          3   600          1\n         0          4   600          1\n";
        assert_eq!((key_of(table, 3), key_of(table, 4), key_of(table, 5)), (Some(4_711), Some(0), None));
    }
}
