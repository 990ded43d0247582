//! Why a command failed, as far as the recording says: who killed it, which memory ran out, which of its processes somebody ended, which room was wanting, who
//! refused a connection, or what it said last.
//!
//! Facts of which each is certain come first; what the command said last stands where nothing else is known, and is its own word.

use crate::cause::End;
use crate::limits::assemble as limits;
use crate::observe::ended::{Ended, is_by};
use crate::observe::index::NONE;
use crate::observe::lives::Life;
use crate::observe::observation::Observation;
use crate::observe::tables::{Actor, Tables};
use crate::observe::words::word;
use crate::waits::view::Facts;
use thalweg_base::numbers::{duration, size};
use thalweg_trace::Meta;
use thalweg_trace::linux::{
    EDQUOT, EFBIG, EIO, EMFILE, ENOSPC, EROFS, SIGALRM, SIGKILL, SIGNAL_STATUS, SIGPIPE, SIGXCPU, SIGXFSZ, signal_name,
};

/// Words of lines that are about a connection: of others, one that was refused is not the reason.
const OF_CONNECTIONS: [&str; 6] = ["refused", "connect", "timed out", "unreachable", "route", "reset"];

/// Where SIGPIPE comes from.
const WROTE: &str = "wrote to a pipe or connection";

/// Why a command failed.
#[derive(Clone, Debug)]
pub(crate) struct Why {
    /// As words that can stand behind how it did; `None`: nobody knows.
    pub words: Option<String>,
    /// A process that it had started was killed, and not its own: its exit code says so as a shell's does.
    pub of_another: bool,
}

/// Why the command failed, as far as that is known; `None`: it did not, or nobody knows.
pub(crate) fn why(meta: &Meta, tables: &Tables, facts: &Facts, seen: &Observation) -> Option<Why> {
    let code = meta.exit_code.filter(|code| *code != 0).map(i64::from)?;
    let (ended, lives) = (&facts.ended, &facts.lives);
    let is_own = |ended: &&Ended| ended.leader == tables.main;
    let own = ended.iter().find(is_own);
    let as_it_did = |ended: &&Ended| SIGNAL_STATUS + ended.signal == code;
    // (A status like a signal's is a shell's of what it started.)
    let of_another = own.is_none() && ended.iter().any(|ended| as_it_did(&ended));
    let by_whom = |ended: &Ended| ended_by_another(meta, tables, seen, ended);
    let memory = || ended.iter().rev().filter(|ended| ended.sender == NONE && ended.signal == SIGKILL).find_map(by_whom);
    let like_it = || ended.iter().rev().filter(as_it_did).find_map(by_whom);
    // One whose output nobody read ends after who read it, and is seldom why.
    let started = || ended.iter().rev().filter(|ended| ended.signal != SIGPIPE).find_map(by_whom);
    let words = said(meta, tables, lives);
    // What a process said before it was ended is none of the reasons.
    let by_ended = || words.is_some_and(|(_, pid)| ended.iter().any(|ended| tables.actors[ended.leader as usize].pid == pid));
    let is_of_connection = words.is_none_or(|(line, _)| OF_CONNECTIONS.iter().any(|word| line.to_lowercase().contains(word)));
    let refused = || seen.last_connections.refused(tables).filter(|_| is_of_connection);
    let last_words = || words.map(|(line, _)| line.to_owned()).filter(|_| !by_ended());
    let words = match own {
        Some(own) => killed_by(meta, tables, seen, own).or_else(started),
        None => memory()
            .or_else(|| without_room(meta))
            .or_else(like_it)
            .or_else(refused)
            .or_else(last_words)
            .or_else(started)
            .or_else(|| as_another(tables, lives, code)),
    };
    Some(Why { words, of_another })
}

/// The last line of standard error, and the process that wrote it. Where that line says no more than with which status another process failed that wrote before
/// (`make: *** [all] Error 1`), that one's line.
fn said<'a>(meta: &'a Meta, tables: &Tables, lives: &[Life]) -> Option<(&'a str, u32)> {
    let by = attribute(meta, "ended.said_by").and_then(|pid| pid.parse().ok()).unwrap_or(0);
    let mut said = attribute(meta, "ended.said").map(|line| (line, by))?;
    let before = (1..).map_while(|place| attribute(meta, &format!("ended.said_before.{place}"))?.split_once(' '));
    for (pid, line) in before {
        let Ok(pid) = pid.parse() else { break };
        let status = tables.actors.iter().zip(lives).find(|(actor, _)| actor.leads() && actor.pid == pid).and_then(|(_, life)| life.status);
        if !status.is_some_and(|status| status != 0 && passes_on(said.0, status)) {
            break;
        }
        said = (line, pid);
    }
    Some(said)
}

/// Whether a line says that something ended with this status.
fn passes_on(line: &str, status: i64) -> bool {
    let mut words = line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let status = status.to_string();
    let of_status = ["error", "status", "code", "returned", "exit", "exited"];
    let mut before = "";
    words.any(|word| {
        let says = word == status && of_status.contains(&before.to_lowercase().as_str());
        before = word;
        says
    })
}

fn attribute<'a>(meta: &'a Meta, name: &str) -> Option<&'a str> {
    meta.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

/// Who sent the signal that ended it: nobody is named for a fault of its own.
fn killed_by(meta: &Meta, tables: &Tables, seen: &Observation, ended: &Ended) -> Option<String> {
    let by = tables.objects.get(ended.sender as usize).map(|object| object.name.as_str());
    let is_own = by.is_some_and(|by| is_by(by, tables.actors[ended.leader as usize].pid));
    match (by, ended.signal) {
        (None, SIGKILL) => out_of_memory(meta).or_else(|| by_kernel(tables, seen, ended)),
        (None, SIGXCPU) => Some("its limit of CPU time was reached (ulimit -t)".to_owned()),
        (_, SIGXFSZ) if is_own || by.is_none() => Some("its limit of a file's size was reached (ulimit -f)".to_owned()),
        (None, SIGALRM) => Some("a timer of its own ran out".to_owned()),
        (_, SIGPIPE) if is_own || by.is_none() => Some(format!("nobody read what it {WROTE}")),
        (None, _) => None,
        (Some(_), _) if is_own => None,
        (Some(by), _) => Some(format!("sent by {by}")),
    }
}

/// The kernel kills where a limit of processor time is reached as well, and says no more of it.
fn by_kernel(tables: &Tables, seen: &Observation, ended: &Ended) -> Option<String> {
    let process = tables.process(ended.leader);
    let threads = tables.actors.iter().zip(&seen.did).filter(|(actor, _)| actor.thread && Some((actor.machine, actor.pid)) == process);
    let ran_ns: u64 = threads.map(|(_, did)| did.cpu_ns + did.uncovered_ns).sum();
    Some(format!("the kernel sent it, after {} of CPU time; no memory ran out", duration(ran_ns as f64 / 1e9)))
}

/// A process of the command that another one of it ended (a time limit that was set for it), or the kernel for want of memory.
fn ended_by_another(meta: &Meta, tables: &Tables, seen: &Observation, ended: &Ended) -> Option<String> {
    let (actor, name) = (&tables.actors[ended.leader as usize], signal_name(ended.signal)?);
    match tables.objects.get(ended.sender as usize) {
        None if ended.signal == SIGKILL => Some(format!("{} was killed by SIGKILL, {}", actor.program(), out_of_memory(meta)?)),
        by if ended.signal == SIGPIPE && by.is_none_or(|by| is_by(&by.name, actor.pid)) => {
            Some(format!("nobody read what {} {WROTE}", actor.program()))
        }
        // A fault of its own.
        None => Some(format!("{} was killed by {name}", actor.program())),
        Some(by) if is_by(&by.name, actor.pid) => None,
        Some(by) => {
            let (by, after_ns) = (by.name.split(" (process").next().unwrap_or(&by.name), ended.at - seen.interval.0);
            Some(format!("{by} sent {} {name} after {}", actor.program(), duration(after_ns as f64 / 1e9)))
        }
    }
}

/// The last process that the command had started and that failed with the same exit code.
fn as_another(tables: &Tables, lives: &[Life], code: i64) -> Option<String> {
    let is_started = |(actor, life): &(&Actor, &Life)| {
        actor.leads() && actor.end == End::Client && !actor.reached && life.status == Some(code) && life.made().is_some()
    };
    let own = tables.process(tables.main);
    let is_other = |(actor, _): &(&Actor, &Life)| Some((actor.machine, actor.pid)) != own;
    let (actor, _) = tables.actors.iter().zip(lives).filter(is_started).filter(is_other).max_by_key(|(_, life)| life.until)?;
    Some(format!("{} failed with it", actor.program()))
}

/// Which memory ran out when the kernel killed a process.
fn out_of_memory(meta: &Meta) -> Option<String> {
    let of = |what: &str| {
        let found = meta.attributes.iter().find_map(|(name, _)| name.strip_prefix(&format!("cgroup.memory.{what}.")));
        let least = |group: &str| attribute(meta, &format!("cgroup.memory.limit.{group}")).and_then(|bytes| bytes.parse::<u64>().ok());
        found.map(|group| (group.to_owned(), least(group)))
    };
    let machine = attribute(meta, "memory.killed").is_some();
    match of("killed").or_else(|| of("gone").filter(|_| machine)) {
        Some((group, Some(bytes))) => Some(format!("out of memory: the limit of cgroup {group} is {}", size(bytes))),
        Some((group, None)) => Some(format!("out of memory in cgroup {group}")),
        None => machine.then(|| "out of memory: the machine had none left".to_owned()),
    }
}

/// Where there was no room: the file system that is full, and the file that could not be written.
fn without_room(meta: &Meta) -> Option<String> {
    let failed = attribute(meta, "ended.failed").and_then(Failed::of);
    let full = attribute(meta, "filesystem.full");
    match (full, failed) {
        (Some(full), Some(failed)) if failed.error == ENOSPC => Some(format!("{full} is full ({} of {})", failed.call, failed.path)),
        (Some(full), _) => Some(format!("{full} is full")),
        (None, Some(failed)) => {
            let soon = failed.at_ns >= meta.end.map_or(i64::MIN, |end| end.ns() - limits::FAILED_BEFORE_NS);
            failed.reason().filter(|_| soon).map(|reason| format!("{} of {}: {reason}", failed.call, failed.path))
        }
        (None, None) => None,
    }
}

/// The last call that failed for want of something.
struct Failed<'a> {
    at_ns: i64,
    call: &'a str,
    error: i64,
    path: &'a str,
}

impl Failed<'_> {
    fn of(value: &str) -> Option<Failed<'_>> {
        let (words, path) = value.split_once(" path=")?;
        let word = |name: &str| word(words, name);
        Some(Failed { at_ns: word("at_ns")?.parse().ok()?, call: word("call")?, error: word("error")?.parse().ok()?, path })
    }

    /// What was wanting, of what a program cannot do without.
    fn reason(&self) -> Option<&'static str> {
        Some(match self.error {
            EIO => "input/output error (EIO)",
            EMFILE => "too many open files (ulimit -n)",
            EFBIG => "the file would be too large (ulimit -f)",
            ENOSPC => "no space left (ENOSPC)",
            EROFS => "the file system is read-only (EROFS)",
            EDQUOT => "the disk quota is used up (EDQUOT)",
            _ => return None,
        })
    }
}
