//! Abilities of the recorder of a recording. Readers ask for an ability, never for a recorder's name.

use crate::model::Meta;

/// Abilities of the recorder that made a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Whether the recording has waits: what threads waited in while off the CPU. Profiles (samples or counts) have no waits.
    pub waits: bool,
    /// Whether the recorder saw who ended a wait. If false, a waker is given only where a single thread could have ended the wait, and
    /// stops are spans of their own.
    pub wakers: bool,
    /// Whether the recording has every polling call that a program makes between its pauses, not just a part of them.
    pub all_looks: bool,
    /// Whether every change of a thread's state was recorded as it happened. If false, threads were polled at intervals.
    pub every_change: bool,
    /// Whether every switch of a thread to and from a processor was recorded as it happened: a thread that is in no wait is known to run, and
    /// one that lost its processor is known to queue for one.
    pub switches: bool,
}

/// Recorders that make profiles.
const PROFILERS: [&str; 2] = ["profile", "counts"];

impl Meta {
    /// Returns the abilities of this recording's recorder; of a merged recording, those that any of its recorders
    /// had.
    pub fn abilities(&self) -> Abilities {
        let says = |name: &str, wanted: &str| self.attributes.iter().any(|(known, value)| known == name && value == wanted);
        Abilities {
            waits: !self.recorder.split('+').all(|recorder| PROFILERS.contains(&recorder)),
            wakers: !says("wakers", "inferred"),
            all_looks: !says("looks.in_part", "true"),
            every_change: !self.attributes.iter().any(|(name, _)| name == "resolution_ns"),
            switches: !says("wakers", "inferred") || says("switches", "recorded"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FORMAT_VERSION, Time};

    fn made_by(recorder: &str, attributes: &[(&str, &str)]) -> Abilities {
        let meta = Meta {
            format: FORMAT_VERSION,
            command: Vec::new(),
            recorder: recorder.to_owned(),
            start: Time::from_monotonic_ns(0),
            end: None,
            exit_code: None,
            dropped_events: 0,
            attributes: attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        };
        meta.abilities()
    }

    #[test]
    fn a_profile_holds_no_waits_and_what_was_merged_with_it_may() {
        assert!(!made_by("profile", &[]).waits && !made_by("counts", &[]).waits && !made_by("counts+profile", &[]).waits);
        assert!(made_by("bpf", &[]).waits && made_by("bpf+profile", &[]).waits && made_by("", &[]).waits);
    }

    #[test]
    fn a_recorder_sees_all_that_it_does_not_say_it_could_not_see() {
        let all = Abilities { waits: true, wakers: true, all_looks: true, every_change: true, switches: true };
        assert_eq!(made_by("another", &[("wakers", "recorded"), ("looks.in_part", "false")]), all);
        let little = made_by("another", &[("wakers", "inferred"), ("looks.in_part", "true"), ("resolution_ns", "1000")]);
        assert_eq!(little, Abilities { waits: true, wakers: false, all_looks: false, every_change: false, switches: false });
        let switches = made_by("another", &[("wakers", "inferred"), ("switches", "recorded")]);
        assert_eq!(switches, Abilities { wakers: false, ..all });
        assert!(!made_by("another", &[("wakers", "inferred"), ("switches", "refused")]).switches);
    }
}
