//! Says what refused a system call: the kernel's age, a missing right, a security module, or a filter of system calls.
//!
//! The kernel returns only a number. A missing right is told first, since it is the usual reason; a security module or a
//! filter is named if this process has the rights, and each with where its log is.

#[cfg(feature = "bpf")]
use crate::counted::why;
use std::fs;
#[cfg(feature = "bpf")]
use std::io::Error;
use std::path::Path;
use thalweg_base::proc::status;

/// Security modules that refuse nothing by a policy of their own that an administrator could change.
const WITHOUT_POLICY: [&str; 8] = ["capability", "yama", "lockdown", "landlock", "integrity", "ima", "evm", "bpf"];

/// What can refuse a system call in spite of sufficient rights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Guards {
    /// The context of this process, if SELinux is active and enforces its policy.
    selinux: Option<String>,
    /// The profile of this process, if AppArmor confines it.
    apparmor: Option<String>,
    /// Other active modules with a policy.
    others: Vec<String>,
    /// A filter of system calls (seccomp) is on this process.
    is_filtered: bool,
}

impl Guards {
    /// Returns those of this process.
    pub(crate) fn here() -> Guards {
        Guards::below(Path::new("/"), status::here().number("Seccomp").unwrap_or(0))
    }

    /// Reads the files below `root`; `seccomp` is the process's mode.
    fn below(root: &Path, seccomp: u32) -> Guards {
        let read = |path: &str| fs::read_to_string(root.join(path)).ok().map(|text| text.trim_matches(['\0', '\n', ' ']).to_owned());
        let modules = read("sys/kernel/security/lsm").unwrap_or_default();
        let modules: Vec<&str> = modules.split(',').filter(|name| !name.is_empty()).collect();
        let label = read("proc/self/attr/current").filter(|label| !label.is_empty());
        let enforces = read("sys/fs/selinux/enforce").is_some_and(|mode| mode == "1");
        // Without securityfs there is no list; a profile then looks like `name (enforce)`, an SELinux context never does.
        let has_apparmor = modules.contains(&"apparmor") || read("sys/module/apparmor/parameters/enabled").is_some_and(|is| is == "Y");
        let confines = |label: &String| label.ends_with("(enforce)") && !enforces;
        let named = |name: &&&str| !WITHOUT_POLICY.contains(*name) && !["selinux", "apparmor"].contains(*name);
        Guards {
            selinux: enforces.then(|| label.clone().unwrap_or_else(|| "unknown".to_owned())),
            apparmor: label.filter(confines).filter(|_| has_apparmor || modules.is_empty()),
            others: modules.iter().filter(named).map(|name| (*name).to_owned()).collect(),
            is_filtered: seccomp != 0,
        }
    }

    /// Returns them as parts of a sentence, each with where its log is.
    fn parts(&self) -> Vec<String> {
        let selinux = self.selinux.iter().map(|context| {
            format!(
                "SELinux, which is enforcing (this process is {context}; its log: `ausearch -m avc -ts recent`, or `journalctl -k -g avc`)"
            )
        });
        let apparmor = self
            .apparmor
            .iter()
            .map(|profile| format!("AppArmor, by the profile {profile} (its log: `journalctl -k -g apparmor`, or `dmesg | grep DENIED`)"));
        let others = self.others.iter().map(|name| format!("the security module {name} (its log: `journalctl -k`)"));
        let filter = self
            .is_filtered
            .then(|| "a filter of system calls (seccomp; Docker and Podman lift theirs with --security-opt seccomp=unconfined)".to_owned());
        selinux.chain(apparmor).chain(others).chain(filter).collect()
    }

    /// Returns a line for `doctor`.
    pub(crate) fn line(&self) -> String {
        match self.parts() {
            none if none.is_empty() => "none confines this process".to_owned(),
            parts => parts.join("; "),
        }
    }

    /// Returns who may have refused, as the end of a sentence.
    pub(crate) fn suspects(&self) -> String {
        match self.parts() {
            none if none.is_empty() => "the kernel does not say by what".to_owned(),
            parts => format!("by {}", parts.join(", or by ")),
        }
    }
}

/// Returns the limit of locked memory, if the kernel counts BPF's memory as locked.
#[cfg(feature = "bpf")]
fn locked_bytes(release: &str) -> Option<u64> {
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let counts = (numbers.next()?, numbers.next()?) < (5, 11);
    rustix::process::getrlimit(rustix::process::Resource::Memlock).current.filter(|_| counts)
}

/// Returns why a ring for BPF could not be created, as a part of a sentence.
#[cfg(feature = "bpf")]
pub(crate) fn of_bpf(error: &Error) -> String {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    match error.raw_os_error() {
        Some(libc::ENOSYS) => {
            "there is no system call bpf: the kernel was built without CONFIG_BPF_SYSCALL, or a filter of system calls (seccomp) hides it"
                .to_owned()
        }
        Some(libc::EINVAL) => {
            format!("the kernel (Linux {release}) has no ring buffers for BPF, which came with Linux 5.8: use a newer one")
        }
        _ => match (why::here(), locked_bytes(&release)) {
            (Some(why), _) => format!("BPF is not allowed here ({error}): {why}"),
            (None, Some(bytes)) => format!(
                "BPF is refused ({error}): before Linux 5.11 its memory counts as locked, of which this process may have {} KiB: raise the \
                 limit (`ulimit -l unlimited`, as root)",
                bytes >> 10
            ),
            (None, None) => {
                format!("BPF is refused ({error}) although this process has CAP_BPF and CAP_PERFMON: {}", Guards::here().suspects())
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads guards from files of these contents.
    fn guards(files: &[(&str, &str)], seccomp: u32) -> Guards {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Guards::below(root.path(), seccomp)
    }

    #[test]
    fn a_security_module_is_named_with_its_log_if_it_can_refuse_this_process() {
        let lsm = ("sys/kernel/security/lsm", "lockdown,capability,yama,selinux,bpf");
        let label = ("proc/self/attr/current", "unconfined_u:unconfined_r:container_t:s0-s0:c1\0");
        let enforcing = guards(&[lsm, label, ("sys/fs/selinux/enforce", "1")], 0).suspects();
        assert!(enforcing.contains("SELinux") && enforcing.contains("container_t") && enforcing.contains("ausearch"), "{enforcing}");
        assert_eq!(guards(&[lsm, label, ("sys/fs/selinux/enforce", "0")], 0), Guards::default());
        let lsm = ("sys/kernel/security/lsm", "capability,landlock,yama,apparmor\n");
        let confined = guards(&[lsm, ("proc/self/attr/current", "docker-default (enforce)\n")], 0).suspects();
        assert!(confined.contains("AppArmor, by the profile docker-default (enforce)") && confined.contains("DENIED"), "{confined}");
        for harmless in ["unconfined", "usr.bin.cp (complain)"] {
            assert_eq!(guards(&[lsm, ("proc/self/attr/current", harmless)], 0), Guards::default(), "{harmless}");
        }
        assert!(guards(&[("proc/self/attr/current", "docker-default (enforce)")], 0).suspects().contains("AppArmor"), "no securityfs");
        assert!(guards(&[("sys/kernel/security/lsm", "capability,smack")], 0).suspects().contains("smack"));
    }

    #[test]
    fn a_filter_is_a_suspect_beside_a_module_and_nothing_is_blamed_without_a_sign() {
        let selinux = [("sys/fs/selinux/enforce", "1"), ("proc/self/attr/current", "a:b:c:s0")];
        let both = guards(&selinux, 2).suspects();
        assert!(both.starts_with("by SELinux") && both.contains(", or by a filter"), "{both}");
        assert_eq!(guards(&[], 0).suspects(), "the kernel does not say by what");
        assert_eq!(guards(&[], 0).line(), "none confines this process");
    }

    #[test]
    #[cfg(feature = "bpf")]
    fn only_older_kernels_count_the_memory_of_bpf_as_locked() {
        assert_eq!(["5.11.0", "5.15.0-91-generic", "6.18.44-fc", "x", ""].map(locked_bytes), [None; 5]);
        let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
        assert_eq!(["5.10.0-28-amd64", "5.8", "4.19.1"].map(locked_bytes), [limit; 3]);
    }

    #[test]
    #[cfg(feature = "bpf")]
    fn age_and_absence_are_told_from_refusal() {
        let of = |number: i32| of_bpf(&Error::from_raw_os_error(number));
        assert!(of(libc::EINVAL).contains("Linux 5.8") && of(libc::ENOSYS).contains("CONFIG_BPF_SYSCALL"));
        assert!(of(libc::EPERM).contains("Operation not permitted"), "{}", of(libc::EPERM));
    }
}
