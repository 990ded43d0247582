//! Lives of threads: created or first seen, and ended. Facts of the recording, where it has them; nothing is charged to a thread outside
//! its life.

use crate::ExplainError;
use crate::observe::index::NONE;
use crate::observe::tables::Tables;
use thalweg_trace::{MarkKind, Source};

/// How the record of a thread begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// It was created, by this track (or [`NONE`]).
    Made(u32),
    /// It existed before, and is recorded from then on.
    Seen,
}

/// One thread's life, as far as recorded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Life {
    /// Since when it is known, and how that began.
    pub from: Option<(i64, Beginning)>,
    /// Its end.
    pub until: Option<i64>,
    /// Its process's exit status, for a first thread; 0 is success.
    pub status: Option<i64>,
}

impl Life {
    /// Whether an instant precedes the first record of the thread.
    pub(crate) fn is_before(&self, at: i64) -> bool {
        self.from.is_some_and(|(from, _)| at <= from)
    }

    /// Whether an instant lies after its end.
    pub(crate) fn is_over(&self, at: i64) -> bool {
        self.until.is_some_and(|until| at > until)
    }

    /// Time of its creation, and its maker (or [`NONE`]).
    pub(crate) fn made(&self) -> Option<(i64, u32)> {
        match self.from {
            Some((at, Beginning::Made(by))) => Some((at, by)),
            _ => None,
        }
    }

    /// The earliest instant that can be charged to it.
    pub(crate) fn floor(&self) -> i64 {
        self.from.map_or(i64::MIN, |(from, _)| from)
    }
}

/// Reads all lives, by actor.
pub(crate) fn read(source: &dyn Source, tables: &mut Tables) -> Result<Vec<Life>, ExplainError> {
    let mut lives = vec![Life::default(); tables.actors.len()];
    for mark in source.marks()? {
        if !matches!(mark.kind, MarkKind::ThreadStart | MarkKind::ThreadExit | MarkKind::ThreadSeen) {
            continue;
        }
        let Some(life) = lives.get_mut(tables.tracks.get(mark.track.number()) as usize) else { continue };
        let at = mark.at.ns();
        match mark.kind {
            MarkKind::ThreadExit => {
                life.until = Some(life.until.map_or(at, |until| until.max(at)));
                life.status = mark.value.or(life.status);
            }
            MarkKind::ThreadStart => {
                let by = mark.value.and_then(|track| u64::try_from(track).ok()).map_or(NONE, |track| tables.tracks.get(track));
                life.from = Some((at, Beginning::Made(by)));
            }
            _ => match life.from {
                Some((_, Beginning::Made(_))) => {}
                Some((from, Beginning::Seen)) => life.from = Some((from.min(at), Beginning::Seen)),
                None => life.from = Some((at, Beginning::Seen)),
            },
        }
    }
    note_reached(source.meta().start.ns(), &lives, tables);
    Ok(lives)
}

/// Marks processes reached from recorded ones, and their children: those taken into the recording later. The command's own process is not.
fn note_reached(start: i64, lives: &[Life], tables: &mut Tables) {
    let command = tables.actors.get(tables.main as usize).map(|main| (main.machine, main.pid));
    let mut order: Vec<usize> = (0..lives.len()).filter(|&i| lives[i].from.is_some()).collect();
    order.sort_by_key(|&i| lives[i].from.map(|(at, _)| at));
    for i in order {
        let actor = &tables.actors[i];
        let reached = match lives[i].from {
            _ if Some((actor.machine, actor.pid)) == command => false,
            Some((_, Beginning::Made(by))) => tables.actors.get(by as usize).is_some_and(|maker| maker.reached),
            Some((at, Beginning::Seen)) => at > start,
            None => false,
        };
        tables.actors[i].reached = reached;
    }
}
