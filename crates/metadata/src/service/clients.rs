//! Clients that send requests with numbers: of those that are gone, the answers are forgotten. Of one credential's clients that are gone, a bounded
//! number is remembered: who makes many of them forgets their own.

use crate::namespace::Namespace;
use crate::namespace::answers;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use thalweg_base::sync::Mutex;
use thalweg_wire::Result;
use thalweg_wire::limits;
use thalweg_wire::trust::CredentialId;

/// Between two looks for those that are gone.
const LOOK: Duration = Duration::from_secs(10);

/// Who is connected, or was until lately.
pub(super) struct Clients {
    state: Mutex<State>,
}

struct State {
    known: HashMap<u64, Presence>,
    looked: Instant,
}

struct Presence {
    /// Whose it is, if that is known in this start.
    of: Option<CredentialId>,
    connections: u32,
    /// When the last one ended.
    left: Instant,
}

impl Clients {
    /// Those that an earlier start has known may come back.
    ///
    /// # Errors
    /// The database's.
    pub(super) fn of(namespace: &Namespace) -> Result<Clients> {
        let now = Instant::now();
        let known =
            answers::clients(namespace)?.into_iter().map(|client| (client, Presence { of: None, connections: 0, left: now })).collect();
        Ok(Clients { state: Mutex::new(State { known, looked: now }) })
    }

    /// A connection of a client.
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
        // A half of them at a time, so that the next ones cost nothing.
        gone.sort_unstable();
        gone.truncate(gone.len() / 2);
        let gone: Vec<u64> = gone.into_iter().map(|(_, client)| client).collect();
        gone.iter().for_each(|client| _ = state.known.remove(client));
        drop(state);
        // A failure leaves them to the next start.
        let _ = answers::forget(namespace, &gone);
    }

    /// A connection of a client has ended. What is remembered of those that left long ago goes.
    pub(super) fn leaves(&self, namespace: &Namespace, client: u64) {
        let now = Instant::now();
        let mut state = self.state.lock();
        if let Some(presence) = state.known.get_mut(&client) {
            presence.connections = presence.connections.saturating_sub(1);
            presence.left = now;
        }
        if now.duration_since(state.looked) < LOOK {
            return;
        }
        state.looked = now;
        let is_gone = |presence: &Presence| presence.connections == 0 && now.duration_since(presence.left) >= limits::REMEMBERED;
        let gone: Vec<u64> = state.known.extract_if(|_, presence| is_gone(presence)).map(|(client, _)| client).collect();
        drop(state);
        // A failure leaves them to the next start.
        let _ = answers::forget(namespace, &gone);
    }
}
