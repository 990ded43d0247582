//! Handling of failed connections and silent servers.

use super::{AnswerFor, Core, Peer};
use thalweg_wire::{Error, ErrorKind};

impl Core {
    /// Handles a connection that failed or could not be made. Unanswered requests are retried once if the server closed a connection that
    /// had worked (it may have restarted); otherwise they fail, and current walks do not ask this server again.
    pub(crate) fn peer_failed(&mut self, peer: Peer, error: &Error, did_work: bool, now_ns: u64) {
        let mut flights: Vec<u64> = self.flights.iter().filter(|(_, flight)| flight.peer == peer).map(|(token, _)| *token).collect();
        flights.sort_unstable();
        let asked_again = match peer {
            Peer::Metadata => &mut self.metadata.asked_again,
            Peer::Io(server) => &mut self.servers[server].asked_again,
        };
        let again = did_work && error.kind() == ErrorKind::Reset && !std::mem::replace(asked_again, true);
        if !again {
            *asked_again = false;
        }
        match peer {
            Peer::Metadata => self.metadata.in_flight = 0,
            Peer::Io(server) => self.servers[server].in_flight = 0,
        }
        let dead = if let Peer::Io(server) = peer { Some(server) } else { None };
        // Backwards, so that retried requests keep their order.
        for token in flights.into_iter().rev() {
            let Some(flight) = self.flights.remove(&token) else { continue };
            match flight.of {
                of if again => self.put_back(peer, of),
                AnswerFor::List { walk, generation, .. } => self.list_failed(walk, generation, error.clone()),
                AnswerFor::Stat(keys) => {
                    keys.into_iter().for_each(|key| self.attributes_came(key, Err(error.clone()), flight.depth, now_ns))
                }
                AnswerFor::Glimpse(wants) => wants.iter().for_each(|want| self.glimpse_failed(want.key, dead, error, now_ns)),
            }
        }
        if !again {
            self.fail_queued(peer, error, now_ns);
        }
        self.notify();
    }

    fn put_back(&mut self, peer: Peer, of: AnswerFor) {
        match (of, peer) {
            (AnswerFor::List { walk: id, generation, .. }, _) => {
                if let Some(walk) = self.walks.get_mut(&id).filter(|walk| walk.generation == generation) {
                    // Continue from the last name received: pages in flight are lost.
                    walk.let_pages_go();
                    walk.is_queued = true;
                    self.metadata.lists.retain(|queued| *queued != id);
                    self.metadata.lists.push_front(id);
                }
            }
            (AnswerFor::Stat(keys), _) => keys.into_iter().rev().for_each(|key| self.metadata.stats.push_front(key)),
            (AnswerFor::Glimpse(wants), Peer::Io(server)) => {
                wants.into_iter().rev().for_each(|want| self.servers[server].wants.push_front(want));
            }
            (AnswerFor::Glimpse(_), Peer::Metadata) => {}
        }
    }

    /// Fails the requests queued for this peer.
    fn fail_queued(&mut self, peer: Peer, error: &Error, now_ns: u64) {
        match peer {
            Peer::Metadata => {
                for id in std::mem::take(&mut self.metadata.lists) {
                    if let Some(walk) = self.walks.get_mut(&id).filter(|walk| walk.is_queued) {
                        walk.fail(error.clone());
                    }
                }
                let stats = std::mem::take(&mut self.metadata.stats);
                stats.into_iter().for_each(|key| self.attributes_came(key, Err(error.clone()), 0, now_ns));
            }
            Peer::Io(server) => {
                let wants = std::mem::take(&mut self.servers[server].wants);
                wants.into_iter().for_each(|want| self.glimpse_failed(want.key, Some(server), error, now_ns));
            }
        }
    }
}
