//! `thalweg umount`: unmounts a store and waits until everything is written.

use crate::failure::Failure;
use crate::output;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thalweg_base::numbers;
use thalweg_mount::{MountState, Mounted, busy_text, is_in_use, mount_state, mounts, namespace_holder, unmount};

/// Arguments of `thalweg umount`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The directories to unmount
    #[arg(required = true)]
    mountpoints: Vec<PathBuf>,
    /// Detach it immediately; programs that use it may continue
    #[arg(long)]
    lazy: bool,
    /// How long to wait until everything is written
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = numbers::parse_duration)]
    timeout: Duration,
}

/// Unmounts each directory.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut failed = None;
    for mountpoint in &arguments.mountpoints {
        if let Err(failure) = one(arguments, mountpoint) {
            match failed.replace(failure) {
                Some(Failure::Failed(message)) => output::note(&format!("thalweg umount: {message}")),
                _ => continue,
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

fn one(arguments: &Arguments, mountpoint: &Path) -> Result<(), Failure> {
    let at = without_links(mountpoint)?;
    let listed = mounts().map_err(|e| Failure::failed(format!("mounts: {e}")))?;
    let Some(mounted) = listed.iter().rfind(|m| m.at == at) else {
        return Err(Failure::failed(format!("{}: no store is mounted here", at.display())));
    };
    // The mount's process must be looked up while it is mounted. A mount whose process is gone does not answer.
    let state = mount_state(&at);
    let process = if let MountState::Served(pid) = state { Some(pid) } else { None };
    let watched = process.and_then(|pid| Pid::from_raw(pid as i32)).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let lazily = arguments.lazy || state == MountState::Dead;
    unmount_in_time(&at, lazily, process).map_err(|e| match e.raw_os_error() {
        Some(busy) if busy == BUSY => Failure::failed(format!("{}: {}; or use --lazy", at.display(), busy_text(&at, process))),
        _ => Failure::failed(format!("{}: {e}", at.display())),
    })?;
    match watched {
        Some(ending) if !arguments.lazy => wait_for(&ending, arguments.timeout, mounted),
        _ => Ok(()),
    }
}

const BUSY: i32 = rustix::io::Errno::BUSY.raw_os_error();

/// How long a mount is tried again that is busy although no process seems to use it: one that is just ending, or about to
/// execute another program, has its parent's files open for a moment.
const MOMENT: Duration = Duration::from_secs(2);

/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

fn unmount_in_time(at: &Path, lazily: bool, process: Option<u32>) -> std::io::Result<()> {
    let began = Instant::now();
    loop {
        match unmount(at, lazily) {
            Err(e) if e.raw_os_error() == Some(BUSY) && began.elapsed() < MOMENT && !is_in_use(at, process) => {
                std::thread::sleep(PAUSE);
            }
            ended => return ended,
        }
    }
}

/// Interval of checks for another namespace that keeps the mount's process alive.
const LOOK: Duration = Duration::from_secs(1);

/// Waits for the mount's process to end: it has written everything then. It does not end while the mount exists in another mount
/// namespace, such as that of a container started meanwhile; all closed files are written in that case too.
fn wait_for(process: &OwnedFd, timeout: Duration, mounted: &Mounted) -> Result<(), Failure> {
    let began = Instant::now();
    let look = Timespec::try_from(LOOK).ok();
    loop {
        let ready = poll(&mut [PollFd::new(process, PollFlags::IN)], look.as_ref()).map_err(std::io::Error::from)?;
        if ready > 0 {
            return Ok(());
        }
        if let Some(pid) = namespace_holder(mounted.device) {
            let at = mounted.at.display();
            output::note(&format!("{at}: unmounted here, but still mounted in the mount namespace of process {pid}"));
            return Ok(());
        }
        if began.elapsed() > timeout {
            return Err(Failure::failed(format!("{}: unmounted, but the mount's process is still writing", mounted.at.display())));
        }
    }
}

/// Resolves symbolic links. If the path itself cannot be resolved (a dead mount), resolves its parent only.
fn without_links(path: &Path) -> Result<PathBuf, Failure> {
    let absolute = std::path::absolute(path).map_err(|e| Failure::failed(format!("{}: {e}", path.display())))?;
    if let Ok(there) = absolute.canonicalize() {
        return Ok(there);
    }
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else { return Ok(absolute) };
    Ok(parent.canonicalize().map_or_else(|_| absolute.clone(), |parent| parent.join(name)))
}
