//! The lifetimes of the command's processes.

use super::run::Run;
use crate::cause::End;
use std::collections::HashMap;

/// A process of the command that started and ended during the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lived {
    pub(super) from: i64,
    pub(super) until: i64,
    /// Its first thread.
    pub(super) track: u32,
}

impl Lived {
    pub(super) fn ns(&self) -> i64 {
        self.until - self.from
    }
}

/// All of them, by start time.
pub(super) fn lives(run: &Run<'_>) -> Vec<Lived> {
    let parts = run.of.parts;
    let mut lives: HashMap<(u32, u32), Lived> = HashMap::new();
    for (track, (actor, life)) in parts.tables.actors.iter().zip(&parts.facts.lives).enumerate() {
        let Some((from, until)) = life.made().map(|(at, _)| at).zip(life.until) else { continue };
        if actor.thread && actor.end == End::Client && !actor.reached && !actor.mount && actor.leads() {
            let known = lives.entry((actor.machine, actor.pid)).or_insert(Lived { from, until, track: track as u32 });
            (known.from, known.until) = (known.from.min(from), known.until.max(until));
        }
    }
    let mut lives: Vec<Lived> = lives.into_values().collect();
    lives.sort_unstable_by_key(|lived| (lived.from, lived.until, lived.track));
    lives
}
