//! Ends of the command's connections in other network namespaces of this machine, and connections that were asked for
//! again.

use super::sampler::Sampler;
use crate::proc::diagnostics::{SYN_SENT, Socket};
use crate::proc::namespaces::Ends;
use std::collections::{BTreeMap, BTreeSet};
use thalweg_trace::{Counter, CounterName, CounterOf, Event, Mark, MarkKind, Time, TrackId};

impl Sampler {
    /// Records requests for a connection that were sent again.
    pub(super) fn note_asked_again(&mut self, now: Time) {
        let mut marks = Vec::new();
        for (watch, inode) in self.watched.values().flat_map(|watch| watch.ends.sockets.iter().map(move |inode| (watch, inode))) {
            let Some(socket) = self.targets.sockets.get(inode) else { continue };
            let (Some(info), Some(track)) = (socket.info, watch.track) else { continue };
            if socket.state == SYN_SENT {
                self.asked.again.entry(*inode).or_insert((now, 0));
            }
            let Some((first, times)) = self.asked.again.get_mut(inode) else { continue };
            if info.total_retransmits > *times {
                *times = info.total_retransmits;
                marks.push((track, socket.clone(), now.since(*first)));
            }
            if socket.state != SYN_SENT {
                self.asked.again.remove(inode);
            }
        }
        for (track, socket, waited_ns) in marks {
            let (object, value) = (self.targets.objects.socket(&socket), i64::try_from(waited_ns).ok());
            self.batch.push(Event::Mark(Mark { track, kind: MarkKind::TcpSynRetransmit, at: now, object, value }));
        }
        self.asked.again.retain(|inode, _| self.targets.sockets.contains_key(inode));
    }

    /// Records what TCP says of the other ends that are in other network namespaces.
    pub(super) fn sample_other_ends(&mut self, ours: &BTreeSet<u64>, now: Time) {
        let mut sockets: BTreeMap<Ends, (u64, Socket)> = BTreeMap::new();
        for inode in ours {
            let Some(socket) = self.targets.sockets.get(inode).cloned().filter(|s| !s.peer.ip().is_loopback()) else { continue };
            if self.targets.other_side(*inode).is_none() {
                sockets.insert((socket.local, socket.peer), (*inode, socket));
            }
        }
        if sockets.is_empty() {
            return;
        }
        let found = self.targets.namespaces.other_ends(&sockets.keys().copied().collect());
        for (ends, entry) in found {
            let Some((inode, socket)) = sockets.get(&ends) else { continue };
            let (Some(object), Some(info)) = (self.targets.objects.other_end(socket), socket.info) else { continue };
            let of = CounterOf::Object(object);
            let mut count = |name, value| self.batch.push(Event::Counter(Counter { of, name, at: now, value }));
            if entry.listens() {
                count(CounterName::TcpAcceptQueued, i64::try_from(entry.unread).unwrap_or(i64::MAX));
                continue;
            }
            let segment_bytes = i64::from(info.segment_bytes.max(info.arriving_segment_bytes));
            count(CounterName::TcpQueuedBytes, i64::try_from(entry.queued_bytes).unwrap_or(i64::MAX));
            if entry.cwnd_segments > 0 {
                count(CounterName::TcpCwndBytes, i64::from(entry.cwnd_segments) * segment_bytes);
            }
            if let Some(ssthresh) = entry.ssthresh_segments {
                count(CounterName::TcpSsthreshBytes, i64::from(ssthresh) * segment_bytes);
            }
            let before = self.asked.timeouts.insert(object, entry.timeouts).unwrap_or(0);
            if let Some(track) = self.track_of(*inode).filter(|_| entry.timeouts > before) {
                let (kind, value) = (MarkKind::TcpTimeout, Some(i64::from(entry.timeouts - before)));
                self.batch.push(Event::Mark(Mark { track, kind, at: now, object: Some(object), value }));
            }
        }
    }

    /// Returns the track of the process that has this socket open.
    fn track_of(&self, inode: u64) -> Option<TrackId> {
        self.watched.values().find(|watch| watch.ends.sockets.contains(&inode))?.track
    }
}
