//! How a process can be contacted: sockets that it listens on, a file system that it serves.

use super::listeners::{socket_inode, unix_listener};
use super::processes::numbers_in;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use thalweg_trace::called;

/// The device for FUSE requests: major and minor number.
const FUSE: (u32, u32) = (10, 229);

/// Whether a character device of this number is the FUSE device.
pub(crate) fn is_fuse(major: u32, minor: u32) -> bool {
    (major, minor) == FUSE
}

/// Returns how a process with these open sockets can be contacted: [`called::PORT`] and [`called::UNIX_SOCKET`] bits.
pub(crate) fn listens_on(pid: u32, sockets: &BTreeSet<u64>) -> i64 {
    if sockets.is_empty() {
        return 0;
    }
    let unix = fs::read_to_string(format!("/proc/{pid}/net/unix")).unwrap_or_default();
    let ports = super::listeners::listening(pid).iter().any(|listener| sockets.contains(&listener.inode));
    let unix = unix.lines().filter_map(unix_listener).any(|inode| sockets.contains(&inode));
    (i64::from(ports) * called::PORT) | (i64::from(unix) * called::UNIX_SOCKET)
}

/// Whether a process serves a file system, as far as its descriptors are readable.
pub(crate) fn serves_files(pid: u32) -> bool {
    descriptors(pid).any(|link| is_fuse_device(&link))
}

/// Returns how a process can be contacted; 0 if it cannot, or is not visible.
pub(crate) fn called_by(pid: u32) -> i64 {
    let mut sockets = BTreeSet::new();
    let mut files = 0;
    for link in descriptors(pid) {
        if is_fuse_device(&link) {
            files = called::FILE_SYSTEM;
        } else {
            sockets.extend(link.to_str().and_then(socket_inode));
        }
    }
    files | listens_on(pid, &sockets)
}

/// Returns what a process's descriptors refer to.
fn descriptors(pid: u32) -> impl Iterator<Item = PathBuf> {
    let directory = format!("/proc/{pid}/fd");
    numbers_in(&directory).into_iter().filter_map(move |fd| fs::read_link(format!("{directory}/{fd}")).ok())
}

fn is_fuse_device(link: &Path) -> bool {
    link == Path::new("/dev/fuse")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_can_be_called() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut before = std::process::Command::new("sleep").arg("1000").spawn().expect("started");
        let _unix = std::os::unix::net::UnixListener::bind(directory.path().join("socket")).expect("bound");
        let _port = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        assert_eq!(called_by(std::process::id()), called::PORT | called::UNIX_SOCKET);
        assert_eq!(called_by(before.id()), 0);
        before.kill().expect("ended");
        before.wait().expect("ended");
    }
}
