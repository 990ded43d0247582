//! Clients that send requests with numbers: of those that are gone, the answers are forgotten.

use crate::error::Result;
use crate::limits;
use crate::metadata::namespace::Namespace;
use crate::metadata::namespace::answers;
use crate::sync::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};

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
        let known = answers::clients(namespace)?.into_iter().map(|client| (client, Presence { connections: 0, left: now })).collect();
        Ok(Clients { state: Mutex::new(State { known, looked: now }) })
    }

    /// A connection of a client.
    pub(super) fn comes(&self, client: u64) {
        let absent = Presence { connections: 0, left: Instant::now() };
        self.state.lock().known.entry(client).or_insert(absent).connections += 1;
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
