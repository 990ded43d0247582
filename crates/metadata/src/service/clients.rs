//! Clients that send numbered requests: stored answers of clients that are gone are deleted. A bounded number of a credential's gone
//! clients is kept, so that a credential with many clients only displaces its own.

use crate::namespace::Namespace;
use crate::namespace::answers;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use thalweg_base::sync::Mutex;
use thalweg_wire::Result;
use thalweg_wire::limits;
use thalweg_wire::trust::CredentialId;

/// Interval between sweeps for clients that are gone.
const SWEEP: Duration = Duration::from_secs(10);

/// Clients that are connected, or were until recently.
pub(super) struct Clients {
    state: Mutex<State>,
}

struct State {
    known: HashMap<u64, Presence>,
    looked: Instant,
}

struct Presence {
    /// The client's credential, if known in this start.
    of: Option<CredentialId>,
    connections: u32,
    /// When its last connection ended.
    left: Instant,
}

impl Clients {
    /// Starts with the clients of earlier starts, which may return.
    ///
    /// # Errors
    /// An error of the database.
    pub(super) fn of(namespace: &Namespace) -> Result<Clients> {
        let now = Instant::now();
        let known =
            answers::clients(namespace)?.into_iter().map(|client| (client, Presence { of: None, connections: 0, left: now })).collect();
        Ok(Clients { state: Mutex::new(State { known, looked: now }) })
    }

    /// Counts a connection of a client.
    pub(super) fn comes(&self, namespace: &Namespace, client: u64, of: CredentialId) {
        let absent = Presence { of: None, connections: 0, left: Instant::now() };
        let mut state = self.state.lock();
        let presence = state.known.entry(client).or_insert(absent);
        presence.connections += 1;
        presence.of = Some(of);
        if state.known.len() <= limits::REMEMBERED_OF_CREDENTIAL {
            return;
        }
        let theirs = state.known.iter().filter(|(_, presence)| presence.connections == 0 && presence.of == Some(of));
        let mut gone: Vec<(Instant, u64)> = theirs.map(|(client, presence)| (presence.left, *client)).collect();
        if gone.len() <= limits::REMEMBERED_OF_CREDENTIAL {
            return;
        }
        // Half of them at a time, to amortise the cost.
        gone.sort_unstable();
        gone.truncate(gone.len() / 2);
        let gone: Vec<u64> = gone.into_iter().map(|(_, client)| client).collect();
        gone.iter().for_each(|client| _ = state.known.remove(client));
        drop(state);
        // On failure the next start deletes them.
        let _ = answers::forget(namespace, &gone);
    }

    /// Counts the end of a client's connection, and deletes answers of clients that left long ago.
    pub(super) fn leaves(&self, namespace: &Namespace, client: u64) {
        let now = Instant::now();
        let mut state = self.state.lock();
        if let Some(presence) = state.known.get_mut(&client) {
            presence.connections = presence.connections.saturating_sub(1);
            presence.left = now;
        }
        if now.duration_since(state.looked) < SWEEP {
            return;
        }
        state.looked = now;
        let is_gone = |presence: &Presence| presence.connections == 0 && now.duration_since(presence.left) >= limits::REMEMBERED;
        let gone: Vec<u64> = state.known.extract_if(|_, presence| is_gone(presence)).map(|(client, _)| client).collect();
        drop(state);
        // On failure the next start deletes them.
        let _ = answers::forget(namespace, &gone);
    }
}
