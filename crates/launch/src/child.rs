//! Processes that end with the one that starts them, however that ends.

use crate::error::{LaunchError, Result};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};

/// This program, for parts, mounts and copies.
pub(crate) fn this_program() -> Result<PathBuf> {
    std::env::current_exe().map_err(|e| LaunchError::failed(format!("this program: {e}")))
}

/// Starts one that gets SIGTERM when this process is killed. `is_apart`: in a process group of its own, so that signals of the terminal are
/// not for it, and that it can be ended with all it has started. The thread that calls this must live as long as the process: the
/// kernel takes the end of that thread for the end of the parent.
pub(crate) fn spawn(mut command: Command, is_apart: bool) -> std::io::Result<Child> {
    if is_apart {
        command.process_group(0);
    }
    let parent: Pid = getpid();
    let dies_with_parent = move || {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        // A parent that is gone already sends nothing.
        if getppid() == Some(parent) { Ok(()) } else { Err(std::io::ErrorKind::Interrupted.into()) }
    };
    // SAFETY: between fork and exec it makes two system calls, and neither allocates nor locks.
    unsafe { command.pre_exec(dies_with_parent) };
    command.spawn()
}
