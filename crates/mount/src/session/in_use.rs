//! The processes that use a mount and prevent unmounting. Only links in /proc are read, whose text comes from the kernel: the mount itself
//! is not accessed, since it may be dead.

use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg_base::proc::{maps, mounts};
use thalweg_trace::MountDescription;

/// A process that uses a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) struct Process {
    pub pid: u32,
    pub name: String,
    /// How it uses the mount.
    pub what: String,
}

/// Bound: processes listed.
const MOST: usize = 10;

/// Returns processes that have a file under `mountpoint` open or mapped, or a working or root directory there, except `except`.
pub(crate) fn processes(mountpoint: &Path, except: Option<u32>) -> Vec<Process> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = processes.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| Some(*pid) != except).filter_map(|pid| process(pid, mountpoint)).take(MOST).collect()
}

fn process(pid: u32, mountpoint: &Path) -> Option<Process> {
    let base = PathBuf::from(format!("/proc/{pid}"));
    let under = |link: &Path| std::fs::read_link(link).ok().filter(|to| is_under(to, mountpoint));
    let place = |name: &str, what: &str| under(&base.join(name)).map(|to| format!("{what} {}", to.display()));
    let open = || {
        let descriptors = std::fs::read_dir(base.join("fd")).ok()?;
        let to = descriptors.flatten().find_map(|d| under(&d.path()))?;
        Some(format!("has {} open", to.display()))
    };
    let mapped = || {
        let maps = maps::of(pid).ok()?;
        let to = maps.iter().map(|mapping| mapping.path).find(|to| is_under(to, mountpoint))?;
        Some(format!("has {} mapped", to.display()))
    };
    let what = place("cwd", "works in").or_else(|| place("root", "has its root at")).or_else(open).or_else(mapped)?;
    let name = std::fs::read_to_string(base.join("comm")).unwrap_or_default().trim().to_owned();
    Some(Process { pid, name, what })
}

fn is_under(path: &Path, mountpoint: &Path) -> bool {
    path.starts_with(mountpoint)
}

/// State of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountState {
    /// The mount answers; PID of its process.
    Served(u32),
    /// The process has ended.
    Dead,
    /// The mount does not answer us: it is another user's, or silent.
    Unknown,
}

/// How long to wait for a mount's answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks a mount for its process. A mount can be silent for ever, so it is asked on a separate thread.
pub fn mount_state(mountpoint: &Path) -> MountState {
    let (sender, answer) = std::sync::mpsc::channel();
    let mountpoint = mountpoint.to_owned();
    std::thread::spawn(move || {
        let mut value = [0; MountDescription::MOST_BYTES];
        let state = match rustix::fs::lgetxattr(&mountpoint, MountDescription::ATTRIBUTE, &mut value) {
            Ok(length) => match MountDescription::read(&value[..length]) {
                Ok(description) if description.pid != 0 => MountState::Served(description.pid),
                _ => MountState::Unknown,
            },
            Err(rustix::io::Errno::NOTCONN | rustix::io::Errno::CONNABORTED) => MountState::Dead,
            Err(_) => MountState::Unknown,
        };
        let _ = sender.send(state);
    });
    answer.recv_timeout(PATIENCE).unwrap_or(MountState::Unknown)
}

/// Returns a process whose mount namespace contains the mount with this device number.
pub fn namespace_holder(device: (u32, u32)) -> Option<u32> {
    let pids = std::fs::read_dir("/proc").ok()?.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let is_there = |pid: &u32| mounts::of(*pid).is_ok_and(|mounts| mounts.iter().any(|mount| mount.device == device));
    pids.into_iter().find(is_there)
}

/// Returns whether a process that is visible here uses the mount, except `except`.
pub fn is_in_use(mountpoint: &Path, except: Option<u32>) -> bool {
    !processes(mountpoint, except).is_empty()
}

/// Returns the message for a mount that is busy: the processes that use it, except `except`.
pub fn busy_text(mountpoint: &Path, except: Option<u32>) -> String {
    let processes = processes(mountpoint, except);
    if processes.is_empty() {
        return "it is in use by a process that is not visible here".to_owned();
    }
    let each: Vec<String> = processes.iter().map(|p| format!("{} {} {}", p.pid, p.name, p.what)).collect();
    format!("it is in use: {}", each.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_a_file_open_is_found_and_the_excepted_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let _open = std::fs::File::create(directory.path().join("f")).unwrap();
        let us = std::process::id();
        let found = processes(directory.path(), None);
        assert!(found.iter().any(|p| p.pid == us && p.what.starts_with("has ")), "{found:?}");
        assert!(!processes(directory.path(), Some(us)).iter().any(|p| p.pid == us));
        assert!(busy_text(directory.path(), None).contains("open"));
    }
}
