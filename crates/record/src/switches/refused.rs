//! Whether the kernel tells an ordinary user about switches, and if not, who can change that.

use super::{PAGES, Switches};
use rustix::process::{WaitOptions, waitpid};
use thalweg_base::proc::status;

/// The setting that decides, and its value where an ordinary user is allowed.
const SETTING: &str = "/proc/sys/kernel/perf_event_paranoid";
const ALLOWS: i32 = 2;

/// Returns why switches of the user's own threads cannot be recorded here, and who can change that.
pub(crate) fn allowed() -> Result<(), String> {
    if is_filtered() && !survives() {
        return Err("a filter of system calls (seccomp; in Docker the default profile) refuses perf_event_open".to_owned());
    }
    let own = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
    let Err(error) = Switches::of(own) else { return Ok(()) };
    Err(match (paranoid(), error.raw_os_error()) {
        (None, _) => "this kernel has no perf events".to_owned(),
        (Some(level), Some(libc::EACCES | libc::EPERM)) if level > ALLOWS => {
            format!("kernel.perf_event_paranoid is {level}; an administrator can set it: sysctl kernel.perf_event_paranoid={ALLOWS}")
        }
        (Some(_), Some(libc::EPERM | libc::ENOMEM)) => {
            let least = PAGES.last().copied().unwrap_or(0);
            format!(
                "rings of {least} pages do not fit into this user's share (kernel.perf_event_mlock_kb); another recording may hold them"
            )
        }
        _ => format!("the kernel refuses perf_event_open: {error}"),
    })
}

/// Whether it is the setting alone that refuses.
pub(crate) fn is_setting() -> bool {
    paranoid().is_some_and(|level| level > ALLOWS) && (!is_filtered() || survives())
}

fn paranoid() -> Option<i32> {
    std::fs::read_to_string(SETTING).ok()?.trim().parse().ok()
}

/// Whether a filter of system calls applies to this process.
fn is_filtered() -> bool {
    status::here().number("Seccomp") == Some(2)
}

/// Tries the call in a child: some filters kill who makes it.
fn survives() -> bool {
    // SAFETY: the child makes one system call and ends; it takes no lock and allocates nothing.
    match unsafe { libc::fork() } {
        0 => {
            let nothing: *const u8 = std::ptr::null();
            // SAFETY: the kernel refuses the address; nothing is opened.
            unsafe {
                libc::syscall(libc::SYS_perf_event_open, nothing, 0, -1, -1, 0);
                let refused = *libc::__errno_location();
                libc::_exit(i32::from(matches!(refused, libc::EPERM | libc::ENOSYS | libc::EACCES)))
            }
        }
        child => {
            let Some(child) = rustix::process::Pid::from_raw(child) else { return false };
            matches!(waitpid(Some(child), WaitOptions::empty()), Ok(Some((_, status))) if status.exit_status() == Some(0))
        }
    }
}
