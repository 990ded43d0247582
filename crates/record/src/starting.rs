//! Names that every program looks for when it starts.

/// Paths that programs look up as they start, or for each system service: prefixes and suffixes of paths, and parts
/// of names.
const STARTING: &[&str] =
    &["/etc/ld.so", "/proc/", "/sys/", "/dev/tty", "/dev/null", "/dev/urandom", "/usr/lib/locale", "/usr/share/locale"];
const ENDS: &[&str] = &[".so", "/tls", "/x86_64", "/haswell", "/aarch64", "/atomics"];
const LIBRARIES: &[&str] =
    &[".so.", "/glibc-hwcaps", "/gconv", "/site-packages", "/python3", "pyvenv.cfg", "/terminfo", ".pyc", "__pycache__", "locale-archive"];

/// Whether a lookup is routine at a program's start, and says nothing about what it waits for.
pub(crate) fn is_of_starting(path: &str) -> bool {
    STARTING.iter().any(|start| path.starts_with(start))
        || ENDS.iter().any(|end| path.ends_with(end))
        || LIBRARIES.iter().any(|part| path.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_program_looks_for_when_it_begins_is_left_out() {
        assert!(is_of_starting("/etc/ld.so.preload") && is_of_starting("/lib/x86_64-linux-gnu/libc.so.6"));
        assert!(is_of_starting("/usr/lib/libm.so") && !is_of_starting("/run/late.socket"));
        assert!(!is_of_starting("/srv/data/ready") && !is_of_starting("/run/lock/job.lock"));
    }
}
