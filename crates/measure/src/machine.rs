//! Describes the machine a figure was measured on. Unavailable facts are absent.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;
use thalweg_base::proc::mounts;

/// The description of a machine, kept with every result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Online processors.
    pub cpus: usize,
    /// The processor's model, as the kernel names it.
    pub cpu_model: Option<String>,
    /// Main memory.
    pub memory_bytes: Option<u64>,
    /// Kernel name and release.
    pub kernel: String,
    /// The distribution.
    pub system: Option<String>,
    /// Whether the processor reports a hypervisor; the host's cache and other guests are then unknown.
    pub virtual_machine: Option<bool>,
    /// File systems used.
    pub file_systems: Vec<FileSystem>,
    /// Load average over one minute at the time of the description: figures from a busy machine are not valid.
    pub load: Option<f64>,
}

/// The file system a path is on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSystem {
    /// The path queried.
    pub path: String,
    /// Its kind: `ext4`, `xfs`, `tmpfs`, ...
    pub kind: String,
    /// The source mounted: a device, a server's export.
    pub source: String,
    /// The mount point.
    pub mount_point: String,
}

impl Machine {
    /// Describes this machine, and the file systems of the existing `paths`.
    pub fn describe<P: AsRef<Path>>(paths: &[P]) -> Machine {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = rustix::system::uname();
        let mut file_systems: Vec<FileSystem> = paths.iter().filter_map(|p| FileSystem::of(p.as_ref()).ok()).collect();
        file_systems.dedup_by(|a, b| a.mount_point == b.mount_point);
        Machine {
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            cpu_model: field(&cpuinfo, "model name").or_else(|| field(&cpuinfo, "CPU part")),
            memory_bytes: std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| memory_bytes(&text)),
            kernel: format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy()),
            system: std::fs::read_to_string("/etc/os-release").ok().and_then(|text| pretty_name(&text)),
            virtual_machine: field(&cpuinfo, "flags").map(|flags| flags.split(' ').any(|f| f == "hypervisor")),
            file_systems,
            load: load_now(),
        }
    }

    /// Formats the description as one line.
    pub fn sentence(&self) -> String {
        let mut parts = vec![format!("{} × {}", self.cpus, self.cpu_model.as_deref().unwrap_or("unnamed processor"))];
        if let Some(bytes) = self.memory_bytes {
            parts.push(format!("{:.1} GiB of memory", bytes as f64 / f64::from(1 << 30)));
        }
        parts.push(self.kernel.clone());
        parts.extend(self.system.clone());
        if self.virtual_machine == Some(true) {
            parts.push("a virtual machine".into());
        }
        parts.extend(self.file_systems.iter().map(|f| format!("{} on {} ({})", f.path, f.kind, f.source)));
        parts.join(", ")
    }
}

/// Returns the load average over the last minute, if available.
pub(crate) fn load_now() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

impl FileSystem {
    /// Finds the file system that `path` is on.
    pub fn of(path: &Path) -> Result<FileSystem> {
        let real = path.canonicalize().map_err(Error::file(path, "resolving it"))?;
        let mounts = mounts::here().map_err(Error::file(path, "reading the mount table"))?;
        let missing = || std::io::Error::new(std::io::ErrorKind::NotFound, "no mount contains it");
        let mount = mounts::holding(&mounts, &real).ok_or_else(missing).map_err(Error::file(path, "finding its mount"))?;
        Ok(FileSystem {
            path: path.display().to_string(),
            kind: mount.kind.clone(),
            source: mount.source.clone(),
            mount_point: mount.point.to_string_lossy().into_owned(),
        })
    }
}

fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let kib: u64 = field(meminfo, "MemTotal")?.strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

fn pretty_name(os_release: &str) -> Option<String> {
    os_release.lines().find_map(|l| Some(l.strip_prefix("PRETTY_NAME=")?.trim_matches('"').to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_can_be_described() {
        let machine = Machine::describe(&["/proc", "/no/such/path"]);
        assert!(machine.cpus >= 1);
        assert!(machine.kernel.starts_with("Linux "));
        assert_eq!(machine.file_systems.len(), 1);
        assert_eq!(machine.file_systems[0].kind, "proc");
        assert!(machine.sentence().contains("/proc on proc"));
    }

    #[test]
    fn what_the_kernel_does_not_say_is_absent() {
        assert_eq!(memory_bytes("MemFree: 3 kB\n"), None);
        assert_eq!(memory_bytes("MemTotal:       24576 kB\n"), Some(24576 * 1024));
        assert_eq!(field("", "model name"), None);
    }
}
