//! Selects the processes to sample: the command with its descendants, and the processes at the other end of what they
//! wait for.

use super::sampler::{Sampler, Watch};
use crate::proc::files::shared_inode;
use crate::proc::fuse;
use crate::proc::listeners::{Listeners, namespace};
use crate::proc::moved::Files;
use crate::proc::processes;
use crate::proc::waits::Ender;
use crate::proc::wakers::Ends;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::rc::Rc;
use thalweg_base::proc::stat::Stat;
use thalweg_trace::{Role, Time};

/// Bound: addresses whose listeners are searched for. Each search reads the descriptors of all of the user's processes.
const MOST_CALLED: usize = 16;

impl Sampler {
    pub(super) fn adopt(&mut self, pid: u32, role: Role, ours: bool) {
        let Some(process) = Stat::of(pid) else { return };
        // (A zombie exists until its parent collects its status.)
        if self.zombies.get(&pid) == Some(&process.started_ticks) {
            return;
        }
        if self.watched.get(&pid).is_some_and(|known| known.started_ticks == process.started_ticks) {
            return;
        }
        let watch = Watch {
            role,
            started_ticks: process.started_ticks,
            name: process.name,
            ours,
            threads: BTreeMap::new(),
            track: None,
            files: Files::of(pid, ours),
            ends: Rc::new(Ends { parent: process.parent, ..Ends::default() }),
            alone: false,
            has_calls: self.library.is_some(),
            program_at: Time::now(),
        };
        self.sampled_somebody = true;
        // The number belonged to another process, whose waits have ended.
        if let Some(old) = self.watched.insert(pid, watch) {
            self.close(pid, old);
        }
    }

    /// Finds the children of watched processes.
    pub(super) fn find_processes(&mut self) {
        let mut next: Vec<u32> = self.watched.keys().copied().collect();
        let mut known: BTreeSet<u32> = next.iter().copied().collect();
        if let Some(command) = self.command.filter(|_| self.strangers.is_some()) {
            self.consider(command, Role::Client);
            if known.insert(command) {
                next.push(command);
            }
        }
        while let Some(pid) = next.pop() {
            let role = self.watched.get(&pid).map_or(Role::Client, |watch| watch.role);
            for child in processes::children(pid) {
                if known.insert(child) {
                    self.consider(child, role);
                    next.push(child);
                }
            }
        }
    }

    /// Watches a process unless another recorder sees it.
    fn consider(&mut self, pid: u32, role: Role) {
        match self.strangers.as_ref().map(|strangers| strangers.is_one(pid)) {
            Some(false) => {
                if let Some(watch) = self.watched.remove(&pid) {
                    self.close(pid, watch);
                }
            }
            _ => self.adopt(pid, role, true),
        }
    }

    /// Whether it is still unknown which process has what a thread of this process waits for.
    pub(super) fn is_to_be_found(&self, ender: Ender, ends: &Ends) -> bool {
        let is_watched =
            |inode: u64| ends.sockets.contains(&inode) || self.watched.values().any(|watch| watch.ends.sockets.contains(&inode));
        let is_new = |inode: u64| inode != 0 && !self.sought.contains(&inode) && !is_watched(inode);
        match ender {
            Ender::Child(_) => true,
            Ender::Pipe { inode, .. } | Ender::Socket(inode) => is_new(inode),
            Ender::Any(sides) => sides.into_iter().any(is_new),
            Ender::Process(holder) => !self.watched.contains_key(&holder),
            _ => false,
        }
    }

    /// Finds the processes with the other end of pipes and sockets, or the lock, that watched threads wait for, and
    /// watches them too.
    pub(super) fn find_other_sides(&mut self) {
        let mut wanted = BTreeSet::new();
        let mut holders = BTreeSet::new();
        let sampled = self.watched.values().flat_map(|watch| watch.threads.values()).filter_map(|thread| thread.window.from.reason);
        let enders: Vec<Ender> = sampled.map(|reason| reason.ender).chain(self.present_enders()).collect();
        for ender in enders {
            match ender {
                Ender::Pipe { inode, .. } | Ender::Socket(inode) => drop(wanted.insert(inode)),
                Ender::Any(sides) => wanted.extend(sides.into_iter().filter(|side| *side != 0)),
                Ender::Process(pid) => drop(holders.insert(pid)),
                _ => {}
            }
        }
        let ours: BTreeSet<u64> = self.watched.values().flat_map(|watch| watch.ends.sockets.iter().copied()).collect();
        for inode in &ours {
            wanted.extend(self.targets.sockets.contains_key(inode).then(|| self.targets.other_side(*inode)).flatten());
        }
        wanted.retain(|inode| !ours.contains(inode) && self.sought.insert(*inode));
        for pid in holders {
            self.consider_other(pid, Role::Client);
        }
        if wanted.is_empty() {
            return;
        }
        for pid in processes::numbers_in("/proc").into_iter().filter(|pid| *pid != std::process::id()) {
            let fds = processes::numbers_in(&format!("/proc/{pid}/fd")).into_iter();
            let inodes = fds.filter_map(|fd| shared_inode(pid, fd));
            let found: Vec<u64> = inodes.filter(|inode| wanted.contains(inode)).collect();
            let serves = |inode: &u64| {
                self.targets.sockets.get(inode).is_none_or(|socket| self.targets.objects.listening.contains(&socket.local.port()))
            };
            if !found.is_empty() {
                let role =
                    if found.iter().any(serves) && found.iter().any(|inode| !self.is_pipe(*inode)) { Role::Server } else { Role::Client };
                self.consider_other(pid, role);
            }
        }
    }

    /// Finds who listens at the addresses that the command's processes connected to, so that a server on this machine is
    /// followed from its first answer on.
    pub(super) fn find_called(&mut self) {
        let called = std::mem::take(&mut self.targets.objects.called);
        let room = MOST_CALLED.saturating_sub(self.called.len());
        let new: Vec<SocketAddr> = called.into_iter().filter(|at| !self.called.contains_key(at)).take(room).collect();
        let namespace = self.command.or(self.watched.keys().next().copied()).and_then(namespace);
        let Some(namespace) = namespace.filter(|_| !new.is_empty()) else { return };
        let listeners = Listeners::read(&processes::all());
        for at in new {
            let mut found = listeners.at(at, &namespace);
            found.remove(&std::process::id());
            for pid in &found {
                self.consider_other(*pid, Role::Server);
            }
            self.called.insert(at, found);
        }
    }

    /// Notes that a process which was there before the command, and which the command sends datagrams to, is a server. (A
    /// socket that receives datagrams does not show whether it serves.)
    pub(super) fn find_datagram_servers(&mut self) {
        let there = self.targets.datagrams_there();
        let is_asked =
            |watch: &Watch| !watch.ours && watch.role == Role::Client && watch.ends.sockets.iter().any(|inode| there.contains(inode));
        let servers: Vec<u32> = self.watched.iter().filter(|(_, watch)| is_asked(watch)).map(|(pid, _)| *pid).collect();
        for pid in servers {
            let Some(mut watch) = self.watched.remove(&pid) else { continue };
            watch.role = Role::Server;
            for (tid, thread) in &watch.threads {
                self.emit_track(thread.track, pid, *tid, &watch, &thread.files);
            }
            self.watched.insert(pid, watch);
        }
    }

    /// Finds who serves the FUSE mounts that recorded files are on.
    pub(super) fn find_fuse_servers(&mut self) {
        if self.exact.is_none() {
            return;
        }
        let new: Vec<u32> = self.targets.objects.fuse_mounts().into_iter().filter(|minor| !self.fuse_servers.contains_key(minor)).collect();
        if new.is_empty() {
            return;
        }
        let found = fuse::servers(&new);
        for minor in new {
            let server = found.get(&minor).copied();
            self.fuse_servers.insert(minor, server);
            if let Some(pid) = server {
                self.consider_other(pid, Role::Server);
            }
        }
    }

    fn is_pipe(&self, inode: u64) -> bool {
        self.watched.values().any(|watch| watch.ends.pipes.iter().any(|(pipe, _)| *pipe == inode))
    }

    fn consider_other(&mut self, pid: u32, role: Role) {
        let seen_elsewhere = self.strangers.as_ref().is_some_and(|strangers| !strangers.is_one(pid));
        if self.watched.contains_key(&pid) || seen_elsewhere {
            return;
        }
        match self.ancestor(pid) {
            // Started since children were last searched.
            Some(role) => self.adopt(pid, role, true),
            None if self.follows => self.adopt(pid, role, false),
            None => {}
        }
    }

    /// Returns the role of a process's nearest watched ancestor among the command's processes.
    fn ancestor(&self, pid: u32) -> Option<Role> {
        const MOST: usize = 16;
        let parents = std::iter::successors(Stat::of(pid), |process| Stat::of(process.parent));
        let watched = parents.take(MOST).filter_map(|process| self.watched.get(&process.parent));
        watched.filter(|watch| watch.ours).map(|watch| watch.role).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Watched;
    use std::sync::Arc;
    use thalweg_trace::Memory;

    #[test]
    fn nobody_but_the_command_is_watched_where_only_the_command_may_be() {
        let mut other = std::process::Command::new("sleep").arg("10").spawn().expect("sleep runs");
        for (follow, found) in [(false, false), (true, true)] {
            // Process 1 is no ancestor whose other children are ours.
            let watched = Watched { follow, command: None, others: Vec::new(), ..Watched::one(1, Arc::new(Memory::new(10))) };
            let mut sampler = Sampler::new(&watched, true, None);
            sampler.consider_other(other.id(), Role::Server);
            assert_eq!(sampler.watched.contains_key(&other.id()), found, "follow: {follow}");
        }
        other.kill().and_then(|()| other.wait()).expect("it ends");
    }

    #[test]
    fn who_is_watched_has_not_to_be_found() {
        let own = std::process::id();
        let watched = Watched::one(own, Arc::new(Memory::new(10)));
        let mut sampler = Sampler::new(&watched, true, None);
        let watch = sampler.watched.get_mut(&own).expect("it is watched");
        watch.ends = Rc::new(Ends { sockets: [77].into(), ..Ends::default() });
        let waiter = Ends { sockets: [76].into(), ..Ends::default() };
        for (inode, is_new) in [(76, false), (77, false), (78, true), (0, false)] {
            assert_eq!(sampler.is_to_be_found(Ender::Socket(inode), &waiter), is_new, "{inode}");
        }
        sampler.sought.insert(78);
        assert!(!sampler.is_to_be_found(Ender::Any([78, 77, 0, 0]), &waiter));
    }
}
