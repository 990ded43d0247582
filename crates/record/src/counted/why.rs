//! Explains why samples are not possible: which right or setting of this machine prevents them, and what would help.

use std::fs;
use thalweg_base::proc::stat::Stat;
use thalweg_base::proc::status;

/// Capability numbers.
const SYS_ADMIN: u32 = 21;
const PERFMON: u32 = 38;
const BPF: u32 = 39;

/// The initial PID namespace.
const FIRST_PID_SPACE: &str = "pid:[4026531836]";

/// The machine's relevant settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Settings {
    /// This process's capabilities, a bit each.
    rights: u64,
    /// Whether it is in a user namespace of its own, where rights do not apply to the machine.
    in_own_users: bool,
    paranoid: Option<i64>,
    bpf_disabled: Option<i64>,
    confidential: bool,
    has_types: bool,
}

impl Settings {
    fn read() -> Settings {
        let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse().ok();
        let users = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let lockdown = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
        Settings {
            rights: status::here().bits("CapEff").unwrap_or(0),
            in_own_users: !users.is_empty() && users.split_ascii_whitespace().ne(["0", "0", "4294967295"]),
            paranoid: number("/proc/sys/kernel/perf_event_paranoid"),
            bpf_disabled: number("/proc/sys/kernel/unprivileged_bpf_disabled"),
            confidential: lockdown.contains("[confidentiality]"),
            has_types: std::path::Path::new("/sys/kernel/btf/vmlinux").exists(),
        }
    }

    /// Returns what prevents samples; `None` if the machine does not say.
    fn missing(&self) -> Option<String> {
        let has = |right: u32| self.rights >> right & 1 == 1 || self.rights >> SYS_ADMIN & 1 == 1;
        let lacks: Vec<&str> =
            [(BPF, "CAP_BPF"), (PERFMON, "CAP_PERFMON")].iter().filter(|(r, _)| !has(*r)).map(|(_, name)| *name).collect();
        if !lacks.is_empty() {
            let settings = [("kernel.perf_event_paranoid", self.paranoid), ("kernel.unprivileged_bpf_disabled", self.bpf_disabled)];
            let settings: Vec<String> = settings.iter().filter_map(|(name, value)| Some(format!("{name}={}", (*value)?))).collect();
            let given = if settings.is_empty() { String::new() } else { format!(" ({})", settings.join(", ")) };
            return Some(format!("no {}{given}: run as root, or setcap cap_bpf,cap_perfmon+ep the command", lacks.join(", no ")));
        }
        if self.in_own_users {
            return Some("capabilities in a user namespace do not apply to the machine: run outside it".to_owned());
        }
        if self.confidential {
            return Some("the kernel is locked down (/sys/kernel/security/lockdown: confidentiality)".to_owned());
        }
        (!self.has_types).then(|| "the kernel has no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)".to_owned())
    }
}

/// Returns the reason as part of a sentence; `error` is the sampling recorder's.
pub(crate) fn missing(error: &str) -> String {
    here().unwrap_or_else(|| error.to_owned())
}

/// Returns which right or setting prevents the use of BPF; `None` if the machine does not say.
pub(crate) fn here() -> Option<String> {
    Settings::read().missing()
}

/// Returns notes on other processes that cannot be seen, a sentence each.
pub(crate) fn hidden_processes() -> Vec<String> {
    let mut notes = Vec::new();
    let in_container = fs::read_link("/proc/self/ns/pid").is_ok_and(|space| space.to_string_lossy() != FIRST_PID_SPACE);
    if in_container {
        notes.push("Processes outside this container cannot be seen: their time appears in no program's row.".to_owned());
    } else if Stat::of(1).is_none() {
        notes.push("/proc shows only your own processes (hidepid): the time of others appears in no program's row.".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings { paranoid: Some(2), bpf_disabled: Some(1), has_types: true, ..Settings::default() }
    }

    #[test]
    fn what_is_missing_is_named() {
        let said = settings().missing().expect("no rights");
        for part in ["no CAP_BPF, no CAP_PERFMON", "kernel.perf_event_paranoid=2", "kernel.unprivileged_bpf_disabled=1", "setcap"] {
            assert!(said.contains(part), "{said}");
        }
        let with = |rights: &[u32]| Settings { rights: rights.iter().map(|right| 1 << right).sum(), ..settings() };
        let said = with(&[BPF]).missing().expect("a right is missing");
        assert!(said.contains("no CAP_PERFMON") && !said.contains("CAP_BPF,"), "{said}");
        assert_eq!(with(&[BPF, PERFMON]).missing(), None);
        assert_eq!(with(&[SYS_ADMIN]).missing(), None);
        let locked = Settings { confidential: true, ..with(&[SYS_ADMIN]) };
        assert!(locked.missing().is_some_and(|said| said.contains("lockdown")));
        let in_users = Settings { in_own_users: true, ..with(&[SYS_ADMIN]) };
        assert!(in_users.missing().is_some_and(|said| said.contains("user namespace")));
        let bare = Settings { has_types: false, ..with(&[SYS_ADMIN]) };
        assert!(bare.missing().is_some_and(|said| said.contains("BTF")));
    }
}
