//! Child processes that outlive the command that starts them.

use std::process::{Child, Command};

/// Spawns a process that inherits its three standard streams and no other descriptor. Otherwise it would keep open a lock or pipe of this
/// command's caller (`flock FILE thalweg mount ...`) for as long as it lives.
///
/// # Errors
/// Those of [`Command::spawn`].
pub(crate) fn spawn(command: &mut Command) -> std::io::Result<Child> {
    // By its number: a C library of 2.17 has no function for it.
    // SAFETY: takes three integers and closes nothing in this process: it only sets close-on-exec.
    if unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) } != 0 {
        close_on_exec_one_by_one();
    }
    command.spawn()
}

/// Does the same where the kernel cannot (Linux 5.10 and older).
fn close_on_exec_one_by_one() {
    for entry in std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        if let Some(descriptor) = entry.file_name().to_str().and_then(|name| name.parse::<libc::c_int>().ok())
            && descriptor > 2
        {
            // SAFETY: takes two integers; a descriptor that was closed since is an error that changes nothing.
            unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}
