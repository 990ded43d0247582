//! Processes that end with their parent, however it ends.

use crate::error::{LaunchError, Result};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};

/// Returns the path of this program, which also runs parts, mounts and copies.
pub(crate) fn this_program() -> Result<PathBuf> {
    std::env::current_exe().map_err(|e| LaunchError::failed(format!("this program: {e}")))
}

/// Starts a process that gets SIGTERM when this process is killed. `is_apart` puts it into its own process group, so that it does not get
/// the terminal's signals and can be killed with everything it started. The calling thread must live as long as the process: the kernel
/// takes that thread's end for the parent's.
pub(crate) fn spawn(mut command: Command, is_apart: bool) -> std::io::Result<Child> {
    if is_apart {
        command.process_group(0);
    }
    let parent: Pid = getpid();
    let dies_with_parent = move || {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        // A parent that has already ended sends no signal.
        if getppid() == Some(parent) { Ok(()) } else { Err(std::io::ErrorKind::Interrupted.into()) }
    };
    // SAFETY: between fork and exec it makes two system calls, and neither allocates nor locks.
    unsafe { command.pre_exec(dies_with_parent) };
    command.spawn()
}
