//! Changes of this machine that findings propose: the commands that make each, and those that undo it. Nothing is run
//! here but programs that read.
//!
//! A change keeps what was there before, so that undoing it restores that and no default. Whether it is (still) made is
//! read from the machine: a setting that somebody else has changed since is not ours to undo.

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use thalweg_base::machine::has_program;
use thalweg_base::proc::mounts;
use thalweg_base::shell;

/// The file of settings that are kept over boots.
pub const SETTINGS: &str = "/etc/sysctl.d/60-thalweg.conf";

/// The identifiers of all fixes.
pub const FIXES: [&str; 13] = [
    "allow-other",
    "capabilities",
    "control-groups",
    "fuse",
    "fusermount",
    "iproute",
    "perf-events",
    "ptrace-scope",
    "receive-buffer",
    "send-buffer",
    "shared-memory",
    "socket-diagnostics",
    "tracefs",
];

/// A proposed change, for a person to decide on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// Its identifier, one of [`FIXES`].
    pub id: &'static str,
    /// The change.
    pub change: Change,
    /// What it adds.
    pub adds: String,
    /// Who else is affected.
    pub affects: String,
    /// What it gives up: protection that is weaker afterwards.
    pub gives_up: Option<String>,
}

impl Serialize for Fix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let lines = |commands: Vec<Vec<String>>| commands.iter().map(|words| shell::line(words)).collect::<Vec<String>>();
        let mut fields = serializer.serialize_struct("Fix", 7)?;
        fields.serialize_field("id", self.id)?;
        fields.serialize_field("commands", &lines(self.change.commands()))?;
        fields.serialize_field("undo", &lines(self.change.undo()))?;
        fields.serialize_field("adds", &self.adds)?;
        fields.serialize_field("affects", &self.affects)?;
        fields.serialize_field("gives_up", &self.gives_up)?;
        fields.serialize_field("lasts", self.change.lasts())?;
        fields.end()
    }
}

/// A change of this machine, with what was there before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Change {
    /// A setting of the kernel (sysctl).
    Setting {
        /// Its name, with dots.
        name: String,
        /// The new value.
        value: String,
        /// The value before.
        before: String,
        /// Also in [`SETTINGS`].
        persists: bool,
    },
    /// Capabilities of a program's file.
    Capabilities {
        /// The file.
        file: PathBuf,
        /// The capabilities that are added, as for setcap.
        adds: String,
        /// All capabilities before, as getcap prints them; empty if none.
        before: String,
    },
    /// A file system of the kernel.
    Mount {
        /// Its type.
        of: String,
        /// Its mount point.
        at: PathBuf,
    },
    /// The size of a file system in memory.
    Size {
        /// Its mount point.
        at: PathBuf,
        /// The new size.
        bytes: u64,
        /// The size before.
        before_bytes: u64,
    },
    /// Modules of the kernel.
    Modules {
        /// Their names.
        names: Vec<String>,
    },
    /// A package of the distribution.
    Package {
        /// Its name.
        name: String,
        /// All packages that were installed with it; known afterwards.
        installed: Vec<String>,
    },
    /// A line of a configuration file.
    Line {
        /// The file.
        file: PathBuf,
        /// The line, of plain characters.
        line: String,
        /// Whether the file existed before.
        existed: bool,
    },
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn script(script: String) -> Vec<String> {
    vec!["sh".to_owned(), "-c".to_owned(), script]
}

fn path_of(setting: &str) -> String {
    format!("/proc/sys/{}", setting.replace('.', "/"))
}

/// Returns a setting's value.
pub fn value_of(setting: &str) -> Option<String> {
    fs::read_to_string(path_of(setting)).ok().map(|text| text.trim().to_owned())
}

fn set(name: &str, value: &str) -> Vec<String> {
    match has_program("sysctl") {
        true => words(&["sysctl", "-q", "-w", &format!("{name}={value}")]),
        false => script(format!("echo {value} > {}", path_of(name))),
    }
}

/// Returns a script that removes a line from a file, and the file if it was made for the line and nothing is left in it.
fn without_line(file: &str, pattern: &str, existed: bool) -> Vec<String> {
    let remove = format!("sed -i '/^{}$/d' {file}", pattern.replace('.', "\\."));
    script(if existed { remove } else { format!("{remove} && {{ test -s {file} || rm {file}; }}") })
}

impl Change {
    /// Returns the commands that make it, in order.
    pub fn commands(&self) -> Vec<Vec<String>> {
        match self {
            Change::Setting { name, value, persists, .. } => {
                let keep = script(format!("mkdir -p /etc/sysctl.d && echo '{name} = {value}' >> {SETTINGS}"));
                std::iter::once(set(name, value)).chain(persists.then_some(keep)).collect()
            }
            Change::Capabilities { file, adds, before } => {
                let all = format!("{before} {adds}");
                vec![words(&["setcap", all.trim_start(), &file.to_string_lossy()])]
            }
            Change::Mount { of, at } => vec![words(&["mount", "-t", of, of, &at.to_string_lossy()])],
            Change::Size { at, bytes, .. } => vec![words(&["mount", "-o", &format!("remount,size={bytes}"), &at.to_string_lossy()])],
            Change::Modules { names } => vec![words(&["modprobe", "-a"]).into_iter().chain(names.iter().cloned()).collect()],
            Change::Package { name, .. } => vec![words(&["apt-get", "install", "-y", "--no-install-recommends", name])],
            Change::Line { file, line, .. } => vec![script(format!("echo {line} >> {}", file.display()))],
        }
    }

    /// Returns the commands that undo it, in order.
    pub fn undo(&self) -> Vec<Vec<String>> {
        match self {
            Change::Setting { name, value, before, persists } => {
                let forget = without_line(SETTINGS, &format!("{name} = {value}"), false);
                std::iter::once(set(name, before)).chain(persists.then_some(forget)).collect()
            }
            Change::Capabilities { file, before, .. } if before.is_empty() => vec![words(&["setcap", "-r", &file.to_string_lossy()])],
            Change::Capabilities { file, before, .. } => vec![words(&["setcap", before, &file.to_string_lossy()])],
            Change::Mount { at, .. } => vec![words(&["umount", &at.to_string_lossy()])],
            Change::Size { at, before_bytes, .. } => {
                vec![words(&["mount", "-o", &format!("remount,size={before_bytes}"), &at.to_string_lossy()])]
            }
            Change::Modules { names } => vec![words(&["modprobe", "-r"]).into_iter().chain(names.iter().rev().cloned()).collect()],
            Change::Package { name, installed } => {
                let all = if installed.is_empty() { std::slice::from_ref(name) } else { installed.as_slice() };
                vec![words(&["apt-get", "purge", "-y"]).into_iter().chain(all.iter().cloned()).collect()]
            }
            Change::Line { file, line, existed } => vec![without_line(&file.display().to_string(), line, *existed)],
        }
    }

    /// Returns how long it lasts.
    pub fn lasts(&self) -> &'static str {
        match self {
            Change::Setting { persists: true, .. } | Change::Package { .. } | Change::Line { .. } => "until it is undone",
            Change::Setting { .. } | Change::Mount { .. } | Change::Size { .. } | Change::Modules { .. } => "until the next boot",
            Change::Capabilities { .. } => "until the file is replaced",
        }
    }

    /// Whether the machine is as the change makes it.
    pub fn is_made(&self) -> bool {
        let has_line = |file: &Path, line: &str| fs::read_to_string(file).is_ok_and(|text| text.lines().any(|there| there == line));
        match self {
            Change::Setting { name, value, persists, .. } => {
                let is_kept = *persists && has_line(Path::new(SETTINGS), &format!("{name} = {value}"));
                is_kept || value_of(name).as_ref() == Some(value)
            }
            Change::Capabilities { file, before, .. } => capabilities_of(file) != *before,
            Change::Mount { of, at } => mounts::here().is_ok_and(|all| all.iter().any(|mount| mount.kind == *of && mount.point == *at)),
            Change::Size { at, bytes, .. } => size_of(at) == Some(*bytes),
            Change::Modules { names } => names.iter().any(|name| Path::new("/sys/module").join(name).exists()),
            Change::Package { name, .. } => packages().contains(name),
            Change::Line { file, line, .. } => has_line(file, line),
        }
    }
}

/// Returns the capabilities of a program's file, as getcap prints them.
fn capabilities_of(file: &Path) -> String {
    let printed = Command::new("getcap").arg(file).env("PATH", "/usr/bin:/usr/sbin:/bin:/sbin").output();
    let printed = printed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let after = printed.trim().strip_prefix(&*file.to_string_lossy()).unwrap_or_default();
    // Releases before 2.41 print `FILE = CAPABILITIES`.
    after.trim_start().trim_start_matches("= ").to_owned()
}

/// Returns the size of a file system.
pub fn size_of(mount: &Path) -> Option<u64> {
    rustix::fs::statvfs(mount).ok().map(|status| status.f_blocks * status.f_frsize)
}

/// Returns the installed packages of a Debian system.
pub fn packages() -> Vec<String> {
    let listed = Command::new("dpkg-query").args(["-W", "-f", "${Package} ${db:Status-Status}\n"]).output();
    let listed = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    listed.lines().filter_map(|line| line.strip_suffix(" installed")).map(str::to_owned).collect()
}

impl Fix {
    /// Proposes a value for a setting; `None` if the kernel does not have it.
    pub fn setting(id: &'static str, name: &str, value: &str, adds: &str, affects: &str) -> Option<Fix> {
        let before = value_of(name)?;
        let change = Change::Setting { name: name.to_owned(), value: value.to_owned(), before, persists: false };
        Some(Fix::new(id, change, adds, affects))
    }

    /// Proposes a package for a program; `None` where packages are not installed with apt-get.
    pub fn package(id: &'static str, name: &str, adds: &str) -> Option<Fix> {
        let change = Change::Package { name: name.to_owned(), installed: Vec::new() };
        has_program("apt-get").then(|| Fix::new(id, change, adds, "nobody; programs are added"))
    }

    /// Proposes to mount a file system of the kernel; `None` without its mount point, or if it is mounted there.
    pub fn mount(id: &'static str, of: &str, at: &str, adds: &str, affects: &str) -> Option<Fix> {
        let change = Change::Mount { of: of.to_owned(), at: at.into() };
        (Path::new(at).is_dir() && !change.is_made()).then(|| Fix::new(id, change, adds, affects))
    }

    /// Proposes modules; `None` without modprobe.
    pub fn modules(id: &'static str, names: &[&str], adds: &str) -> Option<Fix> {
        let change = Change::Modules { names: words(names) };
        has_program("modprobe").then(|| Fix::new(id, change, adds, "everyone: the kernel then answers such requests of all users"))
    }

    /// Proposes another size for a file system in memory.
    pub fn size(id: &'static str, at: &str, bytes: u64, adds: &str, affects: &str) -> Option<Fix> {
        let before_bytes = size_of(Path::new(at))?;
        let change = Change::Size { at: at.into(), bytes, before_bytes };
        (before_bytes < bytes).then(|| Fix::new(id, change, adds, affects))
    }

    /// Proposes a line of a configuration file.
    pub fn line(id: &'static str, file: &str, line: &str, adds: &str, affects: &str) -> Fix {
        let change = Change::Line { file: file.into(), line: line.to_owned(), existed: Path::new(file).exists() };
        Fix::new(id, change, adds, affects)
    }

    /// Proposes capabilities for this program's file; without setcap, the package that has it. `None` if they would have no effect.
    pub(super) fn capabilities(adds: &str, what: &str) -> Option<Fix> {
        let file = std::env::current_exe().ok().filter(|file| file.is_file())?;
        if !has_program("setcap") {
            return Fix::package("capabilities", "libcap2-bin", "setcap, with which the next `doctor --fix` can give capabilities");
        }
        let before = capabilities_of(&file);
        let change = Change::Capabilities { file: file.clone(), adds: adds.to_owned(), before };
        let fix = Fix::new("capabilities", change, what, "everyone who may execute this file");
        Some(fix.giving_up(&format!("everyone who may execute {} can then record the processes of all users", file.display())))
    }

    fn new(id: &'static str, change: Change, adds: &str, affects: &str) -> Fix {
        Fix { id, change, adds: adds.to_owned(), affects: affects.to_owned(), gives_up: None }
    }

    /// Adds what it gives up.
    #[must_use]
    pub fn giving_up(self, what: &str) -> Fix {
        Fix { gives_up: Some(what.to_owned()), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn run(commands: &[Vec<String>]) {
        for words in commands {
            assert!(Command::new(&words[0]).args(&words[1..]).status().unwrap().success(), "{words:?}");
        }
    }

    #[test]
    fn a_line_is_added_and_removed_and_nothing_else_of_its_file_changes() {
        let here = tempfile::tempdir().unwrap();
        let file = here.path().join("fuse.conf");
        for before in [None, Some("# user_allow_other\nmount_max = 7\n"), Some("")] {
            let _ = fs::remove_file(&file);
            before.iter().for_each(|text| fs::write(&file, text).unwrap());
            let fix = Fix::line("allow-other", file.to_str().unwrap(), "user_allow_other", "a", "b");
            assert!(!fix.change.is_made());
            run(&fix.change.commands());
            assert!(fix.change.is_made());
            run(&fix.change.undo());
            assert_eq!(fs::read_to_string(&file).ok().as_deref(), before);
            assert!(!fix.change.is_made());
        }
    }

    #[test]
    fn a_change_is_data_that_is_read_back() {
        let change = Change::Setting { name: "kernel.x".into(), value: "0".into(), before: "1".into(), persists: true };
        let text = serde_json::to_string(&change).unwrap();
        assert_eq!(serde_json::from_str::<Change>(&text).unwrap(), change);
        assert!(text.contains(r#""kind":"setting""#), "{text}");
        assert_eq!((change.commands().len(), change.undo().len(), change.is_made()), (2, 2, false));
        let fix = Fix::new("ptrace-scope", change, "a", "b").giving_up("c");
        let document = serde_json::to_value(&fix).unwrap();
        assert_eq!((document["gives_up"].as_str(), document["lasts"].as_str()), (Some("c"), Some("until it is undone")));
        assert!(document["undo"][1].as_str().unwrap().contains(SETTINGS), "{document}");
    }

    #[test]
    fn a_package_is_removed_with_what_came_with_it() {
        let mut change = Change::Package { name: "fio".into(), installed: Vec::new() };
        assert_eq!(change.undo()[0].join(" "), "apt-get purge -y fio");
        if let Change::Package { installed, .. } = &mut change {
            *installed = words(&["fio", "libaio1"]);
        }
        assert_eq!(change.undo()[0].join(" "), "apt-get purge -y fio libaio1");
    }

    #[test]
    fn capabilities_that_were_there_stay_and_come_back() {
        let of = |before: &str| Change::Capabilities { file: "/x".into(), adds: "cap_bpf+ep".into(), before: before.into() };
        let lines = |before: &str| [of(before).commands(), of(before).undo()].map(|all| shell::line(&all[0]));
        assert_eq!(lines(""), ["setcap cap_bpf+ep /x", "setcap -r /x"]);
        assert_eq!(lines("cap_net_raw=ep"), ["setcap 'cap_net_raw=ep cap_bpf+ep' /x", "setcap cap_net_raw=ep /x"]);
    }
}
