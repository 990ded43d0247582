//! What only the running system can say: names of devices and file systems, and which ports are listened on. The translator asks
//! through [`Facts`], so that it can be tested without a system.

use super::symbols::Symbols;
use super::translate::facts::{Facts, FileSystem};
use crate::proc::disks::whole_disk;
use crate::proc::listeners::{listening, namespace};
use crate::proc::mountinfo::{self, Mount};
use crate::quota::Quota;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The answers of this machine.
#[derive(Debug, Default)]
pub(crate) struct System {
    disks: HashMap<u32, Option<String>>,
    file_systems: HashMap<u32, FileSystem>,
    /// One process of each network namespace.
    namespaces: HashMap<u32, u32>,
    listening: HashMap<u32, HashSet<u16>>,
    quota_groups: HashMap<u32, Option<String>>,
    /// Names of the kernel's functions.
    pub symbols: Symbols,
}

fn major_minor(number: u32) -> (u32, u32) {
    (number >> 20, number & 0xf_ffff)
}

/// The first mount of the file system with this number.
fn mounted(number: u32, mounts: &[Mount]) -> Option<&Mount> {
    mounts.iter().find(|mount| mount.device == major_minor(number))
}

fn packed((major, minor): (u32, u32)) -> u32 {
    major << 20 | minor
}

impl System {
    /// Forgets which ports are listened on: they change.
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
        let here = mountinfo::here();
        let mounted_here = mounted(device, &here).cloned().or_else(|| {
            // Another mount namespace: any watched process may have it.
            self.namespaces.values().find_map(|pid| mounted(device, &mountinfo::of(*pid)).cloned())
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
            mountinfo::parse(b"36 35 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n40 36 0:35 /sub /srv rw - nfs4 host:/srv rw\n");
        assert_eq!(mounted(254 << 20, &mounts), Some(&mounts[0]));
        assert_eq!(mounted(35, &mounts), Some(&mounts[1]));
        assert_eq!(mounted(36, &mounts), None);
    }
}
