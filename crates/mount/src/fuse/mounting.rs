//! Mounting and unmounting: by the system call if permitted, otherwise by `fusermount3`, which lets users mount on their own directories.

use std::ffi::CString;
use std::io::{Error, ErrorKind, Read, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use thalweg_base::proc::mounts::{self, Mount};

/// File system type in `/proc/mounts`.
pub(crate) const TYPE: &str = "fuse.thalweg";
const HELPER: &str = "fusermount3";

/// Parameters of a mount.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub(crate) struct MountSpec {
    /// Source in `/proc/mounts`.
    pub source: String,
    pub read_only: bool,
    /// Whether users other than the one who mounts may use it, subject to permissions.
    pub allow_other: bool,
    /// Privileges of the store that this machine honours.
    pub honours: Honours,
}

/// Privileges in a store that a machine honours where it is mounted: none unless root requests them. Otherwise any user who can write to a
/// store could become root on the machines that mount it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Honours {
    /// Set-user and set-group bits, and file capabilities.
    pub suid: bool,
    /// Device nodes.
    pub dev: bool,
}

impl Honours {
    /// Parses a mount's options, as listed by the kernel.
    fn listed(options: &str) -> Honours {
        let has = |name: &str| options.split(',').any(|option| option == name);
        Honours { suid: !has("nosuid"), dev: !has("nodev") }
    }

    /// Whether any are honoured.
    pub fn any(self) -> bool {
        self.suid || self.dev
    }

    fn flags(self) -> libc::c_ulong {
        (if self.suid { 0 } else { libc::MS_NOSUID }) | (if self.dev { 0 } else { libc::MS_NODEV })
    }

    /// Returns the options for `fusermount3`.
    fn words(self) -> String {
        format!("{},{}", if self.suid { "suid" } else { "nosuid" }, if self.dev { "dev" } else { "nodev" })
    }
}

/// Opens the FUSE device, not mounted yet.
///
/// # Errors
/// The system's.
pub(crate) fn open_device() -> Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags, open};
    open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(|e| match e {
        rustix::io::Errno::NOENT => Error::new(ErrorKind::NotFound, "/dev/fuse does not exist: load the kernel's fuse module"),
        rustix::io::Errno::ACCESS | rustix::io::Errno::PERM => Error::new(ErrorKind::PermissionDenied, "no permission to open /dev/fuse"),
        other => other.into(),
    })
}

/// Mounts; the caller must then answer the kernel's first request.
///
/// # Errors
/// When neither the system call nor the helper may mount; the helper's message.
pub(crate) fn mount(at: &Path, how: &MountSpec) -> Result<OwnedFd> {
    match by_system_call(at, how) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES)) || error.kind() == ErrorKind::PermissionDenied => {
            by_helper(at, how)
        }
        done => done,
    }
}

fn by_system_call(at: &Path, how: &MountSpec) -> Result<OwnedFd> {
    let device = open_device()?;
    let mut options = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions",
        device.as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw()
    );
    if how.allow_other {
        options.push_str(",allow_other");
    }
    let mut flags = how.honours.flags();
    if how.read_only {
        flags |= libc::MS_RDONLY;
    }
    let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| Error::from(ErrorKind::InvalidInput));
    let (source, target) = (text(how.source.as_bytes())?, text(at.as_os_str().as_bytes())?);
    let (kind, options) = (text(TYPE.as_bytes())?, text(options.as_bytes())?);
    // SAFETY: all pointers are to zero-terminated strings that live until the call returns.
    let done = unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast()) };
    if done == 0 { Ok(device) } else { Err(Error::last_os_error()) }
}

fn by_helper(at: &Path, how: &MountSpec) -> Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut options = format!("fsname={},subtype=thalweg,default_permissions,{}", how.source.replace(',', "\\,"), how.honours.words());
    if how.allow_other {
        options.push_str(",allow_other");
    }
    if how.read_only {
        options.push_str(",ro");
    }
    let number = theirs.as_raw_fd();
    let mut command = Command::new(HELPER);
    command.arg("-o").arg(options).arg("--").arg(at).env("_FUSE_COMMFD", number.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // SAFETY: only fcntl, which is async-signal-safe, is called between fork and exec.
    unsafe {
        command.pre_exec(move || match libc::fcntl(number, libc::F_SETFD, 0) {
            0 => Ok(()),
            _ => Err(Error::last_os_error()),
        });
    }
    let mut child = command.spawn().map_err(|e| match e.kind() {
        ErrorKind::NotFound => {
            Error::new(ErrorKind::NotFound, format!("no permission to mount, and {HELPER} was not found: install the package fuse3"))
        }
        _ => Error::new(e.kind(), format!("{HELPER}: {e}")),
    })?;
    drop(theirs);
    let received = receive_descriptor(&ours);
    let mut words = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read_to_string(&mut words);
    }
    let status = child.wait()?;
    match received {
        Ok(Some(descriptor)) if status.success() => Ok(descriptor),
        Err(error) => Err(error),
        _ => Err(Error::new(ErrorKind::PermissionDenied, words.trim().trim_start_matches("fusermount3: ").to_owned())),
    }
}

/// Receives a descriptor over a socket; `None`: the peer closed without sending one.
fn receive_descriptor(socket: &UnixStream) -> Result<Option<OwnedFd>> {
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(socket, &mut [std::io::IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(descriptors.next())
}

/// Unmounts; with `lazily`, detaches immediately and lets current users finish.
///
/// # Errors
/// `EBUSY` while it is in use.
pub fn unmount(at: &Path, lazily: bool) -> Result<()> {
    let target = CString::new(at.as_os_str().as_bytes()).map_err(|_| Error::from(ErrorKind::InvalidInput))?;
    let flags = libc::UMOUNT_NOFOLLOW | if lazily { libc::MNT_DETACH } else { 0 };
    // SAFETY: the pointer is to a zero-terminated string that lives until the call returns.
    if unsafe { libc::umount2(target.as_ptr(), flags) } == 0 {
        return Ok(());
    }
    let error = Error::last_os_error();
    if error.raw_os_error() != Some(libc::EPERM) {
        return Err(error);
    }
    let mut command = Command::new(HELPER);
    command.arg("-u");
    if lazily {
        command.arg("-z");
    }
    let out = command.arg("--").arg(at).stdin(Stdio::null()).output()?;
    if out.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&out.stderr).trim().to_owned();
    let busy = words.contains("busy");
    Err(if busy { Error::from_raw_os_error(libc::EBUSY) } else { Error::other(words) })
}

/// A thalweg mount, as listed by the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Mounted {
    pub at: PathBuf,
    pub source: String,
    /// Device number in the kernel.
    pub device: (u32, u32),
    pub honours: Honours,
}

/// Returns all thalweg mounts visible to this process, oldest first.
///
/// # Errors
/// The system's.
pub fn mounts() -> Result<Vec<Mounted>> {
    Ok(mounts::here()?.into_iter().filter_map(mounted).collect())
}

fn mounted(mount: Mount) -> Option<Mounted> {
    let honours = Honours::listed(&mount.mount_options);
    (mount.kind == TYPE).then_some(Mounted { at: mount.point, source: mount.source, device: mount.device, honours })
}

/// Sets the kernel's read-ahead of a mount, if permitted.
pub(crate) fn set_readahead((major, minor): (u32, u32), bytes: u64) {
    let _ = std::fs::write(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"), (bytes >> 10).to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_known_from_their_type_and_their_names_read_back() {
        let one = |line: &str| mounts::parse(line.as_bytes()).into_iter().find_map(mounted);
        let line = "36 35 0:52 / /mnt/a\\040b rw,nosuid shared:1 - fuse.thalweg thal://127.0.0.1:7400/d rw,user_id=0";
        let expected = Mounted {
            at: PathBuf::from("/mnt/a b"),
            source: "thal://127.0.0.1:7400/d".into(),
            device: (0, 52),
            honours: Honours { suid: false, dev: true },
        };
        assert_eq!(one(line), Some(expected));
        assert_eq!(one("36 35 0:52 / /mnt rw - ext4 /dev/sda rw"), None);
    }
}
