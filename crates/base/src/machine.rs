//! This machine: its host name, its node label, its user, and the identity of its boot.

use rustix::time::{ClockId, clock_gettime};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The environment variable that labels this machine as a node.
pub const NODE_VARIABLE: &str = "THALWEG_NODE";

/// The value of [`boot_id`] if the kernel gives none.
pub const UNKNOWN: &str = "unknown";

/// Returns the host name.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Returns the node label of this machine: `THALWEG_NODE` if set, otherwise the host name.
pub fn node() -> String {
    std::env::var(NODE_VARIABLE).ok().filter(|label| !label.is_empty()).unwrap_or_else(host_name)
}

/// Returns the name of the user who runs this process; under `sudo`, of the user who called it. A user without a name gives the number.
pub fn user() -> String {
    let number = rustix::process::getuid();
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let name = if number.is_root() { variable("SUDO_USER") } else { None };
    let passwd = || std::fs::read_to_string("/etc/passwd").ok().and_then(|text| name_of(number.as_raw(), &text));
    // Users of a directory service are not in /etc/passwd; the login environment has their name.
    let login = || if number.is_root() { None } else { variable("LOGNAME").or_else(|| variable("USER")) };
    name.or_else(passwd).or_else(login).unwrap_or_else(|| number.as_raw().to_string())
}

/// Finds a user's name in the text of `/etc/passwd`.
fn name_of(number: u32, passwd: &str) -> Option<String> {
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        let (name, number_there) = (fields.next()?, fields.nth(1)?);
        (number_there.parse() == Ok(number)).then(|| name.to_owned())
    };
    passwd.lines().find_map(of_line)
}

/// Returns whether a program is installed: in `PATH`, or where those of administrators are.
pub fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).any(|directory| directory.join(name).is_file())
}

/// Returns the wall clock minus the monotonic clock, in nanoseconds.
pub fn realtime_ns() -> i64 {
    let [wall, monotonic] = [ClockId::Realtime, ClockId::Monotonic].map(clock_gettime);
    let seconds = wall.tv_sec.saturating_sub(monotonic.tv_sec);
    seconds.saturating_mul(1_000_000_000).saturating_add(wall.tv_nsec - monotonic.tv_nsec)
}

/// Returns the kernel's name of the block device that holds a file, like `nvme0n1p2` (the row's attribute `device`). For a file that does
/// not exist, the device of its nearest existing directory. `None` for file systems without a block device, such as tmpfs and overlays.
pub fn device_of(path: &Path) -> Option<String> {
    let here = |path: &Path| std::fs::metadata(if path.as_os_str().is_empty() { Path::new(".") } else { path }).ok();
    let number = path.ancestors().find_map(here)?.dev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let link = std::fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    Some(link.file_name()?.to_string_lossy().into_owned())
}

/// Returns an identity of this boot and its monotonic clock: `BOOT_ID` for the machine's own clock. In a time namespace it is
/// `BOOT_ID@+5000000000000`, with the namespace's offset in nanoseconds, or `BOOT_ID@time:[NUMBER]`, unique to the namespace, if the kernel
/// does not give the offset.
pub fn boot_id() -> String {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let Some(boot) = read("/proc/sys/kernel/random/boot_id") else { return UNKNOWN.to_owned() };
    format!("{}{}", boot.trim(), suffix(namespace_here()))
}

/// The offset of a time namespace from the machine's monotonic clock.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Namespace {
    /// Nanoseconds ahead; 0 for the machine's own clock.
    Ahead(i64),
    /// Unknown; holds the namespace's name.
    Unknown(String),
}

fn suffix(namespace: Namespace) -> String {
    match namespace {
        Namespace::Ahead(0) => String::new(),
        Namespace::Ahead(ns) => format!("@{ns:+}"),
        Namespace::Unknown(name) => format!("@{name}"),
    }
}

/// Returns how far the monotonic clock here is ahead of the machine's own clock, which stamps kernel events, in nanoseconds; 0 if unknown.
pub fn ahead_ns() -> i64 {
    match namespace_here() {
        Namespace::Ahead(ns) => ns,
        Namespace::Unknown(_) => 0,
    }
}

fn namespace_here() -> Namespace {
    let link = |name: &str| std::fs::read_link(format!("/proc/self/ns/{name}")).ok().map(|link| link.display().to_string());
    // A kernel without time namespaces has a single clock.
    let Some(here) = link("time") else { return Namespace::Ahead(0) };
    let offset = std::fs::read_to_string("/proc/self/timens_offsets").ok().and_then(|text| offset_ns(&text));
    match offset {
        // The offsets apply to the namespace that children are created in.
        Some(ns) if link("time_for_children").is_none_or(|children| children == here) => Namespace::Ahead(ns),
        _ => Namespace::Unknown(here),
    }
}

/// Parses the line `monotonic SECONDS NANOSECONDS`.
fn offset_ns(text: &str) -> Option<i64> {
    let mut words = text.lines().find(|line| line.starts_with("monotonic"))?.split_ascii_whitespace().skip(1);
    let (seconds, ns) = (words.next()?.parse::<i64>().ok()?, words.next()?.parse::<i64>().ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_memory_is_on_no_device_whatever_is_above_its_file_system() {
        // (procfs has no block device on any machine.)
        for path in ["/proc/self/status", "/proc/self/no-such-file", "/proc/no-such-directory/no-such-file"] {
            assert_eq!(device_of(Path::new(path)), None, "{path}");
        }
        assert_eq!(device_of(Path::new("no-such-file")), device_of(Path::new(".")));
    }

    #[test]
    fn users_have_their_names_and_numbers_where_they_have_none() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\nbroken\nana:x:1000:1000::/home/ana:/bin/sh\n";
        assert_eq!(name_of(1000, passwd), Some("ana".to_owned()));
        assert_eq!((name_of(0, passwd), name_of(1001, passwd)), (Some("root".to_owned()), None));
        assert!(!user().is_empty());
    }

    #[test]
    fn the_kernels_offsets_are_read() {
        assert_eq!(offset_ns("monotonic        5000       250\nboottime            0         0\n"), Some(5_000_000_000_250));
        assert_eq!(offset_ns("monotonic   -1   500000000\n"), Some(-500_000_000));
        assert_eq!((offset_ns(""), offset_ns("monotonic x y")), (None, None));
        assert!(!boot_id().is_empty());
        let suffixes =
            [Namespace::Ahead(0), Namespace::Ahead(5_000), Namespace::Ahead(-7), Namespace::Unknown("time:[4]".into())].map(suffix);
        assert_eq!(suffixes, ["", "@+5000", "@-7", "@time:[4]"]);
    }
}
