//! Boot verifiers of the servers that took unsynced bytes. Bytes written under one boot of a server and synced under another may be lost,
//! which a sync must report once.

use std::collections::BTreeMap;
use thalweg_base::sync::Mutex;
use thalweg_wire::protocol::common::BootVerifier;
use thalweg_wire::{Error, ErrorKind, Result};

/// Boot verifiers of the servers that took bytes not synced since, by the server's index in the store's map.
pub(crate) type Unsynced = BTreeMap<usize, BootVerifier>;

/// Unsynced bytes of one open file or copy.
#[derive(Debug, Default)]
pub(crate) struct Verifiers(Mutex<UnsyncedState>);

#[derive(Debug, Default)]
struct UnsyncedState {
    unsynced: Unsynced,
    /// Set when a server restarted since it took unsynced bytes, until reported.
    lost: Option<Error>,
}

impl UnsyncedState {
    fn note(&mut self, server: usize, name: &str, verifier: BootVerifier) {
        if let Some(before) = self.unsynced.insert(server, verifier)
            && before != verifier
        {
            self.lost.get_or_insert_with(|| lost(name));
        }
    }
}

fn lost(name: &str) -> Error {
    let problem = "restarted since it took unsynced bytes of this file: they may be lost; write the file again";
    Error::new(ErrorKind::Restarted, problem).at_server(name)
}

impl Verifiers {
    /// Records the answer to a write. The next sync reports a restart.
    pub(crate) fn note(&self, server: usize, name: &str, verifier: BootVerifier) {
        self.0.lock().note(server, name, verifier);
    }

    /// Records the answer to a write, for callers that stop at the first loss: an error if a server restarted, now or before.
    pub(crate) fn note_strictly(&self, server: usize, name: &str, verifier: BootVerifier) -> Result<()> {
        let mut seen = self.0.lock();
        seen.note(server, name, verifier);
        seen.lost.clone().map_or(Ok(()), Err)
    }

    /// Returns the error for possibly lost bytes, once.
    pub(crate) fn take_lost(&self) -> Result<()> {
        self.0.lock().lost.take().map_or(Ok(()), Err)
    }

    /// Begins a sync of what was answered so far; later answers need another sync.
    pub(crate) fn begin_sync(&self) -> Unsynced {
        std::mem::take(&mut self.0.lock().unsynced)
    }

    /// Restores the unsynced state after a failed sync.
    pub(crate) fn sync_failed(&self, before: Unsynced, name: impl Fn(usize) -> String) {
        let mut seen = self.0.lock();
        for (server, verifier) in before {
            match seen.unsynced.get(&server) {
                Some(now) if *now != verifier => {
                    seen.lost.get_or_insert_with(|| lost(&name(server)));
                }
                _ => {
                    seen.unsynced.insert(server, verifier);
                }
            }
        }
    }

    /// Completes a sync answered with boot verifiers `by`; an error if one differs from that of the writes, or if a loss was already
    /// known.
    pub(crate) fn synced(&self, before: &Unsynced, by: &[(usize, BootVerifier)], name: impl Fn(usize) -> String) -> Result<()> {
        let changed = by.iter().find(|(server, verifier)| before.get(server).is_some_and(|b| b != verifier));
        let reported = self.take_lost();
        match changed {
            Some((server, _)) => reported.and(Err(lost(&name(*server)))),
            None => reported,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: BootVerifier = BootVerifier(1);
    const B: BootVerifier = BootVerifier(2);

    fn name(server: usize) -> String {
        format!("io{server}")
    }

    #[test]
    fn a_server_that_starts_anew_between_write_and_sync_is_reported_once() {
        let seen = Verifiers::default();
        seen.note(0, "io0", A);
        let before = seen.begin_sync();
        let error = seen.synced(&before, &[(0, B)], name).unwrap_err();
        assert_eq!((error.kind(), error.server()), (ErrorKind::Restarted, Some("io0")));
        let before = seen.begin_sync();
        seen.synced(&before, &[(0, B)], name).unwrap();
    }

    #[test]
    fn a_start_between_two_writes_is_known_from_the_sync_after_them() {
        let seen = Verifiers::default();
        seen.note(0, "io0", A);
        seen.note(0, "io0", B);
        let before = seen.begin_sync();
        assert!(seen.synced(&before, &[(0, B)], name).is_err());
        seen.take_lost().unwrap();
    }

    #[test]
    fn what_is_written_while_a_sync_is_under_way_needs_another() {
        let seen = Verifiers::default();
        seen.note(0, "io0", A);
        let before = seen.begin_sync();
        seen.note(0, "io0", A);
        seen.synced(&before, &[(0, A)], name).unwrap();
        let before = seen.begin_sync();
        assert!(seen.synced(&before, &[(0, B)], name).is_err());
    }

    #[test]
    fn a_sync_that_fails_leaves_everything_unsynced() {
        let seen = Verifiers::default();
        seen.note(0, "io0", A);
        let before = seen.begin_sync();
        seen.sync_failed(before, name);
        let before = seen.begin_sync();
        assert!(seen.synced(&before, &[(0, B)], name).is_err());
    }
}
