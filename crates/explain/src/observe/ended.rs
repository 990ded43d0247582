//! The command's processes that signals ended, and the senders.

use crate::ExplainError;
use crate::cause::End;
use crate::observe::index::NONE;
use crate::observe::lives::Life;
use crate::observe::tables::Tables;
use std::collections::HashMap;
use thalweg_trace::linux::{SIGKILL, SIGNAL_STATUS};
use thalweg_trace::{MarkKind, Source};

/// A signal that ended one of the command's processes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// The process's first thread.
    pub leader: u32,
    /// The signal.
    pub signal: i64,
    /// Time it was sent.
    pub at: i64,
    /// The object that names the sender; [`NONE`] for the kernel.
    pub sender: u32,
}

/// The command's processes that a signal ended, earliest first: for each, the last signal of that kind before its end.
pub(crate) fn ended_by_signals(
    source: &dyn Source,
    tables: &mut Tables,
    processes: &HashMap<(u32, u32), Vec<u32>>,
    lives: &[Life],
) -> Result<Vec<Ended>, ExplainError> {
    let mut found: Vec<Ended> = Vec::new();
    let mut marks: Vec<_> = source.marks()?.into_iter().filter(|mark| mark.kind == MarkKind::Signal).collect();
    marks.sort_by_key(|mark| mark.at);
    for mark in marks {
        let track = tables.tracks.get(mark.track.number());
        let Some(actor) = tables.actors.get(track as usize).filter(|actor| actor.end == End::Client && !actor.reached) else { continue };
        let process = (actor.machine, actor.pid);
        let leads = |&&other: &&u32| tables.actors[other as usize].leads();
        let Some(&leader) = processes.get(&process).and_then(|tracks| tracks.iter().find(leads)) else { continue };
        let (Some(life), Some(signal)) = (lives.get(leader as usize), mark.value) else { continue };
        let sender = mark.object.map_or(NONE, |object| tables.object_rows.get(object.number()));
        // An unknown sender is not the kernel.
        if mark.object.is_some() && sender == NONE {
            continue;
        }
        // A killed process ends, possibly after the recording.
        if life.status == Some(SIGNAL_STATUS + signal) || life.status.is_none() && signal == SIGKILL {
            found.retain(|other| other.leader != leader);
            found.push(Ended { leader, signal, at: mark.at.ns(), sender });
        }
    }
    Ok(found)
}

/// Whether a process's name says that it is this one.
pub(crate) fn is_by(name: &str, pid: u32) -> bool {
    name.ends_with(&format!("(process {pid})"))
}
