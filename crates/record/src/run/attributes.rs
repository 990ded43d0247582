//! A recording's attributes: the machine, limits, ceilings, and processes left running.

use super::Options;
use crate::command::Exit;
use crate::proc::processes;
use crate::{RecordError, Tier};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use thalweg_base::machine;
use thalweg_base::proc::stat::Stat;

/// Reads a file of measured ceilings as attributes `ceiling.NAME`.
pub(super) fn ceilings(path: &Path) -> Result<Vec<(String, String)>, RecordError> {
    let problem = |problem: String| RecordError::File { path: path.to_owned(), problem };
    let text = fs::read_to_string(path).map_err(|error| problem(error.to_string()))?;
    let expected = "expected an object of names (`device.vda.read`) and bytes per second";
    let map: BTreeMap<String, f64> = serde_json::from_str(&text).map_err(|error| problem(format!("{expected}: {error}")))?;
    if let Some((name, value)) = map.iter().find(|(_, value)| **value <= 0.0) {
        return Err(problem(format!("`{name}` is {value}; expected a rate in bytes per second above zero")));
    }
    let name = |name: String| if name.starts_with("ceiling.") { name } else { format!("ceiling.{name}") };
    Ok(map.into_iter().map(|(key, value)| (name(key), format!("{value:.0}"))).collect())
}

/// Returns a note on processes that the ended command left running: those of its process group and session, younger
/// than it. Others may remain that created their own session; /proc does not say whose they were.
pub(super) fn left_behind(command: u32) -> Option<String> {
    let ours = Stat::of(std::process::id())?;
    // A process's group costs a system call; reading everything /proc has on all of them takes longer than a short
    // command.
    let of_group = |pid: &u32| {
        // SAFETY: a system call without pointers. (rustix rejects group 0, that of kernel threads.)
        let group = unsafe { libc::getpgid(pid.cast_signed()) };
        u32::try_from(group).map_or(true, |group| group == command || group == ours.group)
    };
    let command_is_ours = |p: &Stat| p.group == ours.group && p.session == ours.session && p.pid != ours.pid;
    let started_by_us = |p: &Stat| p.parent == ours.pid;
    let left: Vec<_> = processes::numbers_in("/proc")
        .into_iter()
        .filter(of_group)
        .filter_map(Stat::of)
        .filter(|p| p.state != 'Z' && p.pid != command && p.started_ticks >= ours.started_ticks)
        .filter(|p| p.group == command || (command_is_ours(p) && !started_by_us(p) && !is_ancestor(p.pid, &ours)))
        .filter(|p| p.group == command || is_orphan(p))
        .map(|p| format!("{} ({})", p.name, p.pid))
        .collect();
    match left.as_slice() {
        [] => None,
        [one] => Some(format!("The command has ended; {one}, which it started, is still running and no longer recorded.")),
        many => Some(format!(
            "The command has ended; {} processes that it started are still running, unrecorded: {}.",
            many.len(),
            first_few(many)
        )),
    }
}

/// Whether a process has lost its parent and was adopted by init or a subreaper (a service manager, a container's
/// first process), which is in another session.
fn is_orphan(process: &Stat) -> bool {
    process.parent == 1 || Stat::of(process.parent).is_none_or(|parent| parent.session != process.session)
}

fn first_few(names: &[String]) -> String {
    let shown = names.iter().take(4).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > 4 { format!("{shown}, ...") } else { shown }
}

/// More generations than any process has above it.
const MOST_GENERATIONS: usize = 1_000;

fn is_ancestor(candidate: u32, of: &Stat) -> bool {
    let parents = std::iter::successors(Some(of.parent), |parent| Stat::of(*parent).map(|process| process.parent));
    parents.take(MOST_GENERATIONS).take_while(|parent| *parent > 0).any(|parent| parent == candidate)
}

/// Adds the attributes that [`super::run`] itself knows, unless a recorder has set them.
pub(super) fn describe(
    attributes: &mut Vec<(String, String)>,
    options: &Options,
    exit: Option<Exit>,
    quota: Option<f64>,
    notes: &[String],
) {
    let tier = match options.tier {
        Tier::Lean => "lean",
        Tier::Syscall => "syscall",
    };
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|_| !attributes.iter().any(|(known, _)| known == name)) {
            attributes.push((name.to_owned(), value));
        }
    };
    add("tier", Some(tier.to_owned()));
    add("realtime_ns", Some(machine::realtime_ns().to_string()));
    add("user", Some(machine::user()));
    add("only", options.only.then(|| "true".to_owned()));
    add("notes", (!notes.is_empty()).then(|| notes.join("\n")));
    add("cgroup.cpu_quota", quota.map(|quota| quota.to_string()));
    add("signal", exit.and_then(|exit| if let Exit::Signal(signal) = exit { Some(signal.to_string()) } else { None }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceilings_become_attributes_and_nonsense_is_refused_with_its_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("ceilings.json");
        fs::write(&path, r#"{"device.vda.read": 1.5e9, "ceiling.path.a>b": 117000000}"#).expect("written");
        let read = ceilings(&path).expect("read");
        assert!(read.contains(&("ceiling.device.vda.read".to_owned(), "1500000000".to_owned())), "{read:?}");
        assert!(read.contains(&("ceiling.path.a>b".to_owned(), "117000000".to_owned())), "{read:?}");
        for text in ["[]", r#"{"a": "fast"}"#, r#"{"a": 0}"#, ""] {
            fs::write(&path, text).expect("written");
            let error = ceilings(&path).expect_err(text).to_string();
            assert!(error.contains("ceilings.json"), "{error}");
        }
    }
}
