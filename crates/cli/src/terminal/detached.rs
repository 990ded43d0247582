//! Processes of ours that outlive the command that starts them.

use std::process::{Child, Command};

/// Starts one that inherits its three standard streams and nothing else: a lock or a pipe that the caller of this command holds (`flock FILE
/// thalweg mount ...`) would otherwise be held for as long as the new process lives.
///
/// # Errors
/// As [`Command::spawn`].
pub(crate) fn spawn(command: &mut Command) -> std::io::Result<Child> {
    // SAFETY: takes three numbers, and closes nothing here: what is open is only not handed on.
    unsafe { libc::close_range(3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC as libc::c_int) };
    command.spawn()
}
