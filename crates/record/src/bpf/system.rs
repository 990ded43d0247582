//! What only the running system can say: names of devices and file systems, and which ports are listened on. The translator asks
//! through [`Facts`], so that it can be tested without a system.

use std::collections::{HashMap, HashSet};
use std::fs;

/// A file system, by the device number its files carry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileSystem {
    /// `ext4`, `nfs4`, ...; empty: not known.
    pub kind: String,
    /// The disk under it, as in /sys/block; empty: none, or several.
    pub disk: String,
    /// The kernel's number of that disk; 0: none.
    pub disk_number: u32,
    /// Where its top is mounted; empty: not known.
    pub mounted_on: String,
}

/// What the translator asks of the system. Answers may be remembered by who answers.
pub(crate) trait Facts {
    /// A disk's name by the kernel's number (major << 20 | minor).
    fn disk_name(&mut self, number: u32) -> Option<String>;
    /// The file system whose files carry this device number, seen by `pid`.
    fn file_system(&mut self, device: u32) -> FileSystem;
    /// Whether somebody listens on this TCP port in this network namespace.
    fn is_listened_on(&mut self, namespace: u32, port: u16) -> bool;
    /// Whether somebody listens on this TCP port in any network namespace of a process that is watched.
    fn is_listened_on_anywhere(&mut self, port: u16) -> bool;
    /// A process is watched from now on (its namespaces can be asked about).
    fn watching(&mut self, pid: u32);
}

/// The answers of this machine.
#[derive(Debug, Default)]
pub(crate) struct System {
    disks: HashMap<u32, Option<String>>,
    file_systems: HashMap<u32, FileSystem>,
    /// One process of each network namespace.
    namespaces: HashMap<u32, u32>,
    listening: HashMap<u32, HashSet<u16>>,
}

fn major_minor(number: u32) -> (u32, u32) {
    (number >> 20, number & 0xf_ffff)
}

/// `MAJOR:MINOR` in /proc/self/mountinfo with this number: kind and source of the file system, and where its top is mounted.
fn mounted(number: u32, mounts: &str) -> Option<(String, String, String)> {
    let (major, minor) = major_minor(number);
    let wanted = format!("{major}:{minor}");
    for line in mounts.lines() {
        if line.split(' ').nth(2) == Some(wanted.as_str()) {
            let (_, after) = line.split_once(" - ")?;
            let mut words = after.split(' ');
            let mut place = line.split(' ').skip(3);
            let (root, point) = (place.next()?, place.next()?);
            let top = if root == "/" { point.to_owned() } else { String::new() };
            return Some((words.next()?.to_owned(), words.next().unwrap_or("").to_owned(), top));
        }
    }
    None
}

/// Name and number of the whole disk of a block device.
fn whole_disk(number: u32) -> Option<(String, u32)> {
    let (major, minor) = major_minor(number);
    let link = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let disk = if link.join("partition").exists() { link.parent()?.to_owned() } else { link };
    let name = disk.file_name()?.to_string_lossy().into_owned();
    let text = fs::read_to_string(disk.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some((name, major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?))
}

/// Ports in state LISTEN in the text of /proc/PID/net/tcp or tcp6.
fn listening_ports(table: &str, ports: &mut HashSet<u16>) {
    for line in table.lines().skip(1) {
        let mut words = line.split_whitespace();
        let (Some(local), Some(state)) = (words.nth(1), words.nth(1)) else { continue };
        if state == "0A"
            && let Some(port) = local.rsplit(':').next().and_then(|p| u16::from_str_radix(p, 16).ok())
        {
            ports.insert(port);
        }
    }
}

impl System {
    /// Forgets which ports are listened on: they change.
    pub(crate) fn refresh(&mut self) {
        self.listening.clear();
    }
}

impl Facts for System {
    fn disk_name(&mut self, number: u32) -> Option<String> {
        self.disks.entry(number).or_insert_with(|| whole_disk(number).map(|d| d.0)).clone()
    }

    fn file_system(&mut self, device: u32) -> FileSystem {
        if let Some(known) = self.file_systems.get(&device) {
            return known.clone();
        }
        let mut found = FileSystem::default();
        let mut source_number = None;
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mounted_here = mounted(device, &mounts).or_else(|| {
            // Another mount namespace: any watched process may have it.
            self.namespaces.values().find_map(|pid| mounted(device, &fs::read_to_string(format!("/proc/{pid}/mountinfo")).ok()?))
        });
        if let Some((kind, source, top)) = mounted_here {
            found.kind = kind;
            found.mounted_on = top;
            if source.starts_with("/dev/") {
                source_number = fs::metadata(&source).ok().map(|m| {
                    use std::os::unix::fs::MetadataExt;
                    (rustix::fs::major(m.rdev()) << 20) | rustix::fs::minor(m.rdev())
                });
            }
        }
        if let Some((name, number)) = whole_disk(device).or_else(|| source_number.and_then(whole_disk)) {
            found.disk = name;
            found.disk_number = number;
        }
        self.file_systems.insert(device, found.clone());
        found
    }

    fn is_listened_on(&mut self, namespace: u32, port: u16) -> bool {
        let pid = self.namespaces.get(&namespace).copied();
        let ports = self.listening.entry(namespace).or_insert_with(|| {
            let mut ports = HashSet::new();
            if let Some(pid) = pid {
                for table in ["tcp", "tcp6"] {
                    listening_ports(&fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default(), &mut ports);
                }
            }
            ports
        });
        ports.contains(&port)
    }

    fn is_listened_on_anywhere(&mut self, port: u16) -> bool {
        let namespaces: Vec<u32> = self.namespaces.keys().copied().collect();
        namespaces.into_iter().any(|namespace| self.is_listened_on(namespace, port))
    }

    fn watching(&mut self, pid: u32) {
        let namespace = fs::read_link(format!("/proc/{pid}/ns/net")).ok().and_then(|link| {
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
        let mounts = "36 35 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n40 36 0:35 / /srv rw - nfs4 host:/srv rw\n";
        assert_eq!(mounted(254 << 20, mounts), Some(("ext4".into(), "/dev/vda".into(), "/".into())));
        assert_eq!(mounted(35, mounts), Some(("nfs4".into(), "host:/srv".into(), "/srv".into())));
        assert_eq!(mounted(36, mounts), None);
    }

    #[test]
    fn only_ports_that_are_listened_on_count() {
        let mut ports = HashSet::new();
        let table =
            "  sl  local_address rem_address   st\n   0: 0100007F:2F01 00000000:0000 0A 0\n   1: 0100007F:2F02 0100007F:1234 01 0\n";
        listening_ports(table, &mut ports);
        assert_eq!(ports, HashSet::from([0x2F01]));
    }
}
