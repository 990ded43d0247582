//! Times of processes' name lookups. A lookup is a datagram, and no span shows that it was sent.

use crate::ExplainError;
use crate::observe::tables::Tables;
use std::collections::HashMap;
use thalweg_trace::{MarkKind, Source};

/// Times of lookups, by process (machine and number), ascending.
#[derive(Debug, Default)]
pub(crate) struct AskedNames(HashMap<(u32, u32), Vec<i64>>);

impl AskedNames {
    /// Reads the lookups of a recording.
    pub(crate) fn read(source: &dyn Source, tables: &mut Tables) -> Result<AskedNames, ExplainError> {
        let mut asked: HashMap<_, Vec<i64>> = HashMap::new();
        for mark in source.marks()?.into_iter().filter(|mark| mark.kind == MarkKind::NameAsked) {
            let track = tables.tracks.get(mark.track.number());
            if let Some(process) = tables.process(track) {
                asked.entry(process).or_default().push(mark.at.ns());
            }
        }
        asked.values_mut().for_each(|instants| instants.sort_unstable());
        Ok(AskedNames(asked))
    }

    /// The process's next lookup at or after an instant; `i64::MAX` if there is none.
    pub(crate) fn next(&self, process: (u32, u32), at: i64) -> i64 {
        let Some(instants) = self.0.get(&process) else { return i64::MAX };
        instants.get(instants.partition_point(|&asked| asked < at)).copied().unwrap_or(i64::MAX)
    }
}
