//! Tracks which process has which end of pipes and Unix sockets, from the library's records: a wait for one is ended
//! by the process with the other end, if there is only one.

use crate::proc::diagnostics::Diagnostics;
use crate::proc::files::Opened;
use std::collections::HashMap;
use thalweg_trace::{ObjectId, TrackId};

/// A user of one end.
#[derive(Clone, Copy, Debug)]
struct User {
    pid: u32,
    track: TrackId,
    opened: Opened,
    ended: bool,
}

/// A pipe or socket with two ends.
#[derive(Clone, Copy, Debug)]
struct Shared {
    inode: u64,
    /// The other end's inode; equal for a pipe. Absent while the socket is not connected.
    other: Option<u64>,
    /// How often the kernel was queried for it.
    asked: u32,
}

/// Queries after which a socket without a known other end is taken to have none on this machine.
const MOST_ASKED: u32 = 8;

/// Users of pipes and sockets.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    diagnostics: Option<Diagnostics>,
    shared: HashMap<ObjectId, Shared>,
    users: HashMap<u64, Vec<User>>,
    pids: HashMap<TrackId, u32>,
}

impl Sharing {
    /// Notes a thread's process.
    pub(crate) fn thread(&mut self, track: TrackId, pid: u32) {
        self.pids.insert(track, pid);
    }

    /// Notes that this thread uses a pipe.
    pub(crate) fn pipe(&mut self, track: TrackId, object: ObjectId, inode: u64, opened: Opened) {
        self.shared.insert(object, Shared { inode, other: Some(inode), asked: 0 });
        self.uses(track, inode, opened);
    }

    /// Notes that this thread uses a socket that may be connected to another on this machine.
    pub(crate) fn socket(&mut self, track: TrackId, object: ObjectId, inode: u64) {
        self.shared.insert(object, Shared { inode, other: None, asked: 0 });
        self.find_other(object);
        self.uses(track, inode, Opened::Both);
    }

    /// Queries the kernel for the other end of a socket, if it is not known yet.
    fn find_other(&mut self, object: ObjectId) -> Option<Shared> {
        let shared = self.shared.get_mut(&object)?;
        if shared.other.is_none() && shared.asked < MOST_ASKED {
            shared.asked += 1;
            if self.diagnostics.is_none() {
                self.diagnostics = Diagnostics::open().ok();
            }
            let peers = self.diagnostics.as_mut().and_then(|diagnostics| diagnostics.unix_peers().ok());
            shared.other = peers.and_then(|peers| peers.get(&shared.inode).copied());
        }
        Some(*shared)
    }

    fn uses(&mut self, track: TrackId, inode: u64, opened: Opened) {
        let Some(pid) = self.pids.get(&track).copied() else { return };
        let users = self.users.entry(inode).or_default();
        users.retain(|user| user.pid != pid || user.opened != opened);
        users.push(User { pid, track, opened, ended: false });
    }

    /// Marks a process as ended: its ends are closed.
    pub(crate) fn ended(&mut self, pid: u32) {
        self.users.values_mut().flatten().filter(|user| user.pid == pid).for_each(|user| user.ended = true);
    }

    /// Returns the thread with the other end of what `track` waits for, if only one process can be meant: a living
    /// one, or else the only one that ever had it.
    pub(crate) fn other_side(&mut self, object: ObjectId, track: TrackId) -> Option<TrackId> {
        let shared = self.find_other(object)?;
        let other = shared.other?;
        let pid = *self.pids.get(&track)?;
        let own = self.users.get(&shared.inode)?.iter().find(|user| user.pid == pid)?;
        let is_pipe = shared.inode == other;
        let faces = |user: &&User| match (own.opened, user.opened) {
            _ if !is_pipe => user.track != track,
            (Opened::Read, Opened::Read) | (Opened::Write, Opened::Write) => false,
            _ => user.pid != pid,
        };
        let users = self.users.get(&other)?;
        let only = |ended: bool| {
            let mut candidates = users.iter().filter(faces).filter(|user| user.ended == ended);
            (candidates.next().map(|user| user.track), candidates.next().is_none())
        };
        match (only(false), only(true)) {
            ((Some(one), true), _) | ((None, _), (Some(one), true)) => Some(one),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipes_only_writer_is_the_other_side_of_its_reader() {
        let track = |number| TrackId::new(number).expect("not zero");
        let object = ObjectId::new(9).expect("not zero");
        let mut sharing = Sharing::default();
        (1..=4).for_each(|number| sharing.thread(track(number), number as u32));
        sharing.pipe(track(1), object, 7, Opened::Read);
        assert_eq!(sharing.other_side(object, track(1)), None);
        sharing.pipe(track(2), object, 7, Opened::Write);
        sharing.pipe(track(4), object, 7, Opened::Read);
        assert_eq!(sharing.other_side(object, track(1)), Some(track(2)));
        assert_eq!(sharing.other_side(object, track(2)), None, "one of two readers");
        sharing.pipe(track(3), object, 7, Opened::Write);
        assert_eq!(sharing.other_side(object, track(1)), None, "one of two writers");
        sharing.ended(2);
        assert_eq!(sharing.other_side(object, track(1)), Some(track(3)));
    }
}
