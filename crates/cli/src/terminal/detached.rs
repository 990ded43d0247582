//! Child processes that outlive the command that starts them.

use std::process::{Child, Command};

/// Spawns a process that inherits its three standard streams and no other descriptor. Otherwise it would keep open a lock or pipe of this
/// command's caller (`flock FILE thalweg mount ...`) for as long as it lives.
///
/// # Errors
/// Those of [`Command::spawn`].
pub(crate) fn spawn(command: &mut Command) -> std::io::Result<Child> {
    // SAFETY: takes three integers and closes nothing in this process: it only sets close-on-exec.
    unsafe { libc::close_range(3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC as libc::c_int) };
    command.spawn()
}
