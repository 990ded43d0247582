//! Files that watched processes have open, looked at now and then.
//!
//! The programs see a file when a thread waits in a call on it, or is sampled in one. A file that is only ever found in the
//! page cache, by a program that is quick, may be missed: /proc/PID/fd has it. Looking is bounded, and gets rarer for a
//! process that shows nothing new.

use super::raw::{FdObject, MODE_FILE, MODE_KIND};
use super::system::Facts;
use super::translate::{OpenFile, Translator};
use crate::proc::files::{FdInfo, Opened};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Processes that are looked at in one round.
const MOST_PROCESSES: usize = 32;

/// Processes that are looked at when they are new, in one round: in a storm of short ones the rest are not.
const MOST_FRESH: usize = 4;

/// Descriptors of a process that are looked at.
const MOST_DESCRIPTORS: usize = 128;

/// A process that shows nothing new is left out for at most so many rounds.
const MOST_ROUNDS: u32 = 20;

#[derive(Debug, Default)]
struct Process {
    seen: HashMap<u64, u32>,
    pause: u32,
    left: u32,
}

/// The processes that are looked at.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    processes: HashMap<u32, Process>,
    fresh: Vec<u32>,
}

/// The regular files that a process has open; `None` when it is gone.
fn open_files(pid: u32) -> Option<Vec<OpenFile>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).ok()?.take(MOST_DESCRIPTORS) {
        let Ok(entry) = entry else { continue };
        let Ok(path) = fs::read_link(entry.path()) else { continue };
        let Some(path) = path.to_str().filter(|p| p.starts_with('/')) else { continue };
        let Ok(about) = fs::metadata(entry.path()) else { continue };
        if about.mode() & MODE_KIND != MODE_FILE {
            continue;
        }
        let number = entry.file_name().to_string_lossy().parse::<i32>().unwrap_or(-1);
        let opened = u32::try_from(number).ok().and_then(|fd| FdInfo::open(pid, fd)).and_then(|info| info.read());
        let access = match opened.map(|(_, opened)| opened) {
            Some(Opened::Read) => 1,
            Some(Opened::Write) => 2,
            Some(Opened::Both) => 3,
            Some(Opened::Unknown) | None => 0,
        };
        let device = rustix::fs::major(about.dev()) << 20 | rustix::fs::minor(about.dev());
        let object = FdObject { id: about.ino(), device, mode: about.mode(), fd: number, access };
        found.push(OpenFile { object, path: path.strip_suffix(" (deleted)").unwrap_or(path).to_owned() });
    }
    Some(found)
}

impl Snapshots {
    /// A process is watched from now on.
    pub(crate) fn watch(&mut self, pid: u32) {
        self.processes.entry(pid).or_default();
        self.fresh.push(pid);
    }

    /// Looks at the processes that are new.
    pub(crate) fn fresh(&mut self, translator: &mut Translator, facts: &mut dyn Facts) {
        for pid in std::mem::take(&mut self.fresh).into_iter().rev().take(MOST_FRESH) {
            self.one(pid, translator, facts);
        }
    }

    /// Looks at those whose turn it is.
    pub(crate) fn look(&mut self, translator: &mut Translator, facts: &mut dyn Facts) {
        let mut turn = Vec::new();
        for (pid, process) in &mut self.processes {
            process.left = process.left.saturating_sub(1);
            if process.left == 0 && turn.len() < MOST_PROCESSES {
                turn.push(*pid);
            }
        }
        for pid in turn {
            self.one(pid, translator, facts);
        }
    }

    fn one(&mut self, pid: u32, translator: &mut Translator, facts: &mut dyn Facts) {
        let Some(files) = open_files(pid) else {
            self.processes.remove(&pid);
            return;
        };
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let mut news = false;
        for file in &files {
            let key = u64::from(file.object.device) << 40 ^ file.object.id;
            if process.seen.insert(key, file.object.access) != Some(file.object.access) {
                news = true;
                translator.open_file(pid, file, facts);
            }
        }
        if process.seen.len() > 4 * MOST_DESCRIPTORS {
            process.seen.clear();
        }
        process.pause = if news { 1 } else { (process.pause * 2).clamp(1, MOST_ROUNDS) };
        process.left = process.pause;
    }
}
