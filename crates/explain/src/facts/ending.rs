//! Why a command failed, as far as recorded: who killed it, which memory ran out, which of its processes was killed, which space was
//! missing, who refused a connection, or its last error message.
//!
//! Certain facts come first; the command's last message is used if nothing else is known, and is quoted.

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

/// Words of lines about a connection: a refused connection does not explain other lines.
const OF_CONNECTIONS: [&str; 6] = ["refused", "connect", "timed out", "unreachable", "route", "reset"];

/// The cause of SIGPIPE.
const WROTE: &str = "wrote to a pipe or connection without a reader";

/// Why a command failed.
#[derive(Clone, Debug)]
pub(crate) struct Why {
    /// A phrase to follow how it failed; `None` if unknown.
    pub words: Option<String>,
    /// Whether a child was killed, not the command: its exit code follows the shell's convention.
    pub of_another: bool,
}

/// Why the command failed; `None` if it did not, or the reason is unknown.
pub(crate) fn why(meta: &Meta, tables: &Tables, facts: &Facts, seen: &Observation) -> Option<Why> {
    let code = meta.exit_code.filter(|code| *code != 0).map(i64::from)?;
    let (ended, lives) = (&facts.ended, &facts.lives);
    let is_own = |ended: &&Ended| ended.leader == tables.main;
    let own = ended.iter().find(is_own);
    let as_it_did = |ended: &&Ended| SIGNAL_STATUS + ended.signal == code;
    // An exit status like a signal's is a shell's, for a child.
    let of_another = own.is_none() && ended.iter().any(|ended| as_it_did(&ended));
    let by_whom = |ended: &Ended| ended_by_another(meta, tables, seen, ended);
    let memory = || ended.iter().rev().filter(|ended| ended.sender == NONE && ended.signal == SIGKILL).find_map(by_whom);
    let like_it = || ended.iter().rev().filter(as_it_did).find_map(by_whom);
    // A process whose output had no reader ends after its reader, and is seldom the reason.
    let started = || ended.iter().rev().filter(|ended| ended.signal != SIGPIPE).find_map(by_whom);
    let words = said(meta, tables, lives);
    // The last message of a process that was killed is not the reason.
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

/// The last line of standard error, and the process that wrote it. If that line only reports another process's exit status (`make: ***
/// [all] Error 1`), that process's last line.
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

/// Whether a line reports an end with this status.
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

/// Who sent the fatal signal; `None` for the process's own fault.
fn killed_by(meta: &Meta, tables: &Tables, seen: &Observation, ended: &Ended) -> Option<String> {
    let by = tables.objects.get(ended.sender as usize).map(|object| object.name.as_str());
    let is_own = by.is_some_and(|by| is_by(by, tables.actors[ended.leader as usize].pid));
    match (by, ended.signal) {
        (None, SIGKILL) => out_of_memory(meta).or_else(|| by_kernel(tables, seen, ended)),
        (None, SIGXCPU) => Some("it reached its limit of CPU time (ulimit -t)".to_owned()),
        (_, SIGXFSZ) if is_own || by.is_none() => Some("it reached its limit of file size (ulimit -f)".to_owned()),
        (None, SIGALRM) => Some("its own timer expired".to_owned()),
        (_, SIGPIPE) if is_own || by.is_none() => Some(format!("it {WROTE}")),
        (None, _) => None,
        (Some(_), _) if is_own => None,
        (Some(by), _) => Some(format!("sent by {by}")),
    }
}

/// The kernel also kills at a limit of processor time, without further record.
fn by_kernel(tables: &Tables, seen: &Observation, ended: &Ended) -> Option<String> {
    let process = tables.process(ended.leader);
    let threads = tables.actors.iter().zip(&seen.did).filter(|(actor, _)| actor.thread && Some((actor.machine, actor.pid)) == process);
    let ran_ns: u64 = threads.map(|(_, did)| did.cpu_ns + did.uncovered_ns).sum();
    Some(format!("sent by the kernel after {} of CPU time; memory had not run out", duration(ran_ns as f64 / 1e9)))
}

/// A process of the command killed by another of its processes (at a timeout), or by the kernel for lack of memory.
fn ended_by_another(meta: &Meta, tables: &Tables, seen: &Observation, ended: &Ended) -> Option<String> {
    let (actor, name) = (&tables.actors[ended.leader as usize], signal_name(ended.signal)?);
    match tables.objects.get(ended.sender as usize) {
        None if ended.signal == SIGKILL => Some(format!("{} was killed by SIGKILL, {}", actor.program(), out_of_memory(meta)?)),
        by if ended.signal == SIGPIPE && by.is_none_or(|by| is_by(&by.name, actor.pid)) => Some(format!("{} {WROTE}", actor.program())),
        // Its own fault.
        None => Some(format!("{} was killed by {name}", actor.program())),
        Some(by) if is_by(&by.name, actor.pid) => None,
        Some(by) => {
            let (by, after_ns) = (by.name.split(" (process").next().unwrap_or(&by.name), ended.at - seen.interval.0);
            Some(format!("{by} sent {} {name} after {}", actor.program(), duration(after_ns as f64 / 1e9)))
        }
    }
}

/// The command's last child that failed with the same exit code.
fn as_another(tables: &Tables, lives: &[Life], code: i64) -> Option<String> {
    let is_started = |(actor, life): &(&Actor, &Life)| {
        actor.leads() && actor.end == End::Client && !actor.reached && life.status == Some(code) && life.made().is_some()
    };
    let own = tables.process(tables.main);
    let is_other = |(actor, _): &(&Actor, &Life)| Some((actor.machine, actor.pid)) != own;
    let (actor, _) = tables.actors.iter().zip(lives).filter(is_started).filter(is_other).max_by_key(|(_, life)| life.until)?;
    Some(format!("{} failed with the same code", actor.program()))
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

/// Where space ran out: the full file system, and the file that could not be written.
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

/// The last call that failed for lack of a resource.
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

    /// The missing resource, if a program cannot do without it.
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
