//! CPU time per process from /proc/PID/stat: a process's own time, and that of its ended children that it waited for.
//!
//! A process present in two polls is charged the difference. One that ended is accounted for by its parent, which is
//! charged all of the child's time when it waits for it. Any part of that which no poll saw is the time of children
//! that ended between two polls, summed as `children of PARENT`. The command's parent is this program, so its last
//! ticks are its own.

use crate::proc::processes::numbers_in;
use std::collections::{BTreeMap, HashMap};
use thalweg_base::proc::stat::{Stat, Ticks, tick_ns};
use thalweg_trace::{Counter, CounterName, CounterOf, Event, HostId, Role, Time, Track, TrackId, TrackKind};

/// Reads all visible processes.
pub(super) fn read() -> BTreeMap<u32, Stat> {
    numbers_in("/proc").into_iter().filter_map(|pid| Some((pid, Stat::of(pid)?))).collect()
}

/// The account charged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Account {
    /// A process, or the parent of ended ones.
    pub pid: u32,
    pub started: u64,
    pub name: String,
    pub role: Role,
}

/// The processes at the last poll.
#[derive(Debug)]
pub(super) struct Processes {
    last: Option<BTreeMap<u32, Stat>>,
    roles: HashMap<u32, Role>,
    /// The command's process, and its name in case it was never seen under it.
    command: Option<(u32, String)>,
    own: u32,
}

impl Processes {
    pub(super) fn new(roles: impl Iterator<Item = (u32, Role)>, command: Option<(u32, String)>) -> Processes {
        let own = std::process::id();
        let roles = std::iter::once((own, Role::Recorder)).chain(roles).collect();
        Processes { last: None, roles, command, own }
    }

    /// Returns the time each process ran since the last poll; empty for the first.
    pub(super) fn look(&mut self, now: BTreeMap<u32, Stat>) -> Vec<(Account, Ticks)> {
        let Some(last) = self.last.take() else {
            self.inherit(&now);
            self.last = Some(now);
            return Vec::new();
        };
        self.inherit(&now);
        let before = |pid: &u32, stat: &Stat| last.get(pid).filter(|before| before.started_ticks == stat.started_ticks);
        let mut charges = Vec::new();
        let mut waited: BTreeMap<u32, Ticks> = BTreeMap::new();
        for (pid, stat) in &now {
            let (own, children) = before(pid, stat).map_or_else(Default::default, |before| (before.used, before.children_used));
            charges.push((self.account(*pid, stat, &stat.name), stat.used.less(own)));
            waited.insert(*pid, stat.children_used.less(children));
        }
        // What was seen of ended processes is part of what their parents were charged for them.
        let is_gone = |pid: &u32, stat: &Stat| now.get(pid).is_none_or(|now| now.started_ticks != stat.started_ticks);
        for (pid, stat) in last.iter().filter(|(pid, stat)| is_gone(pid, stat)) {
            if let Some(waited) = nearest(*pid, &last, &is_gone).and_then(|ancestor| waited.get_mut(&ancestor)) {
                *waited = waited.less(stat.used.plus(stat.children_used));
            }
        }
        for (pid, rest) in waited {
            let Some(stat) = now.get(&pid) else { continue };
            let command =
                self.command.as_ref().filter(|_| pid == self.own).and_then(|(command, name)| Some((*command, name, last.get(command)?)));
            charges.push(match command.filter(|(command, _, stat)| is_gone(command, stat)) {
                // Before exec it has this program's name.
                Some((command, name, seen)) if seen.name == stat.name => (self.account(command, seen, name), rest),
                Some((command, _, seen)) => (self.account(command, seen, &seen.name), rest),
                None => (self.account(pid, stat, &format!("children of {}", stat.name)), rest),
            });
        }
        let command = self.command.as_ref().map(|(command, _)| *command);
        self.roles.retain(|pid, _| now.contains_key(pid) || Some(*pid) == command);
        self.last = Some(now);
        charges.retain(|(_, ticks)| *ticks != Ticks::default());
        charges
    }

    /// Gives children the role of their parents.
    fn inherit(&mut self, now: &BTreeMap<u32, Stat>) {
        let mut new: Vec<(&u32, &Stat)> = now.iter().filter(|(pid, _)| !self.roles.contains_key(pid)).collect();
        new.sort_by_key(|(pid, stat)| (stat.started_ticks, **pid));
        for (pid, stat) in new {
            let inherited = self.roles.get(&stat.parent).copied().filter(|role| matches!(role, Role::Client | Role::Server));
            self.roles.insert(*pid, inherited.unwrap_or(Role::None));
        }
    }

    fn account(&self, pid: u32, stat: &Stat, name: &str) -> Account {
        let role = self.roles.get(&pid).copied().unwrap_or(Role::None);
        Account { pid, started: stat.started_ticks, name: name.to_owned(), role }
    }
}

/// Returns the nearest living ancestor.
fn nearest(pid: u32, last: &BTreeMap<u32, Stat>, is_gone: &impl Fn(&u32, &Stat) -> bool) -> Option<u32> {
    let mut at = last.get(&pid)?.parent;
    for _ in 0..last.len() {
        match last.get(&at) {
            Some(stat) if is_gone(&at, stat) => at = stat.parent,
            Some(_) => return Some(at),
            None => return None,
        }
    }
    None
}

/// Time charged to each account so far, as counters of tracks.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    all: HashMap<Account, (TrackId, Ticks)>,
    last: Option<Time>,
}

impl Ledger {
    /// Adds the charges since the last poll.
    pub(super) fn enter(
        &mut self,
        charges: Vec<(Account, Ticks)>,
        at: Time,
        host: HostId,
        mut new: impl FnMut() -> TrackId,
        into: &mut Vec<Event>,
    ) {
        let since = self.last.replace(at).unwrap_or(at);
        for (account, ticks) in charges {
            let (track, sum) = self.all.entry(account.clone()).or_insert_with(|| {
                let (track, pid) = (new(), Some(account.pid));
                let (kind, role, name) = (TrackKind::Thread, account.role, account.name.clone());
                into.push(Event::Track(Track { track, host, kind, role, pid, tid: pid, name }));
                into.extend(counters(track, Ticks::default(), since));
                (track, Ticks::default())
            });
            *sum = sum.plus(ticks);
            into.extend(counters(*track, *sum, at));
        }
    }
}

fn counters(track: TrackId, ticks: Ticks, at: Time) -> [Event; 2] {
    [(CounterName::CpuUserNs, ticks.user), (CounterName::CpuSystemNs, ticks.system)].map(|(name, ticks)| {
        let value = i64::try_from(ticks.saturating_mul(tick_ns())).unwrap_or(i64::MAX);
        Event::Counter(Counter { of: CounterOf::Track(track), name, at, value })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(parent: u32, name: &str, own: (u64, u64), children: (u64, u64)) -> Stat {
        let ticks = |(user, system)| Ticks { user, system };
        Stat { parent, started_ticks: 1, name: name.to_owned(), used: ticks(own), children_used: ticks(children), ..Stat::default() }
    }

    /// The recorder, the command (100) and an unrelated process (7), plus these.
    fn table(own: (u64, u64), waited: (u64, u64), more: &[(u32, Stat)]) -> BTreeMap<u32, Stat> {
        let all = [(std::process::id(), stat(7, "thalweg", own, waited))];
        all.into_iter().chain(more.iter().cloned()).collect()
    }

    fn charged(charges: &[(Account, Ticks)], name: &str) -> Option<(u64, u64, Role)> {
        charges.iter().find(|(account, _)| account.name == name).map(|(account, ticks)| (ticks.user, ticks.system, account.role))
    }

    #[test]
    fn what_ran_between_two_looks_is_charged_and_nothing_before() {
        let own = std::process::id();
        let mut processes = Processes::new([(100, Role::Client)].into_iter(), Some((100, "sh".to_owned())));
        let (shell, other) = (stat(own, "sh", (5, 1), (0, 0)), stat(1, "cron", (900, 90), (10, 0)));
        assert!(processes.look(table((3, 3), (0, 0), &[(100, shell.clone()), (7, other.clone())])).is_empty());
        let child = Stat { started_ticks: 2, ..stat(100, "spin", (40, 2), (0, 0)) };
        let charges = processes.look(table((4, 3), (0, 0), &[(100, stat(own, "sh", (6, 1), (0, 0))), (101, child), (7, other)]));
        assert_eq!(charged(&charges, "sh"), Some((1, 0, Role::Client)));
        assert_eq!(charged(&charges, "spin"), Some((40, 2, Role::Client)), "a child is the command's");
        assert_eq!(charged(&charges, "thalweg"), Some((1, 0, Role::Recorder)));
        assert_eq!(charged(&charges, "cron"), None);
    }

    #[test]
    fn children_that_ended_between_two_looks_are_their_parents_and_none_counts_twice() {
        let own = std::process::id();
        let mut processes = Processes::new([(100, Role::Client)].into_iter(), Some((100, "spin".to_owned())));
        processes.look(table((0, 0), (0, 0), &[(100, stat(own, "sh", (0, 0), (0, 0)))]));
        // One child is seen at 30 ticks, and its own child at 8.
        let (child, grandchild) = (stat(100, "make", (30, 0), (2, 0)), stat(101, "cc", (8, 0), (0, 0)));
        processes.look(table((0, 0), (0, 0), &[(100, stat(own, "sh", (0, 0), (0, 0))), (101, child), (102, grandchild)]));
        // Both have ended, at 33 and 9, and so has an unseen one, of 5. The shell waited for all: 33 + 2 + 9 + 5.
        let charges = processes.look(table((0, 0), (0, 0), &[(100, stat(own, "sh", (1, 0), (49, 0)))]));
        assert_eq!(charged(&charges, "children of sh"), Some((9, 0, Role::Client)));
        assert_eq!(charged(&charges, "sh"), Some((1, 0, Role::Client)));
    }

    #[test]
    fn the_last_ticks_of_the_command_are_its_own() {
        let own = std::process::id();
        let mut processes = Processes::new([(100, Role::Client)].into_iter(), Some((100, "spin".to_owned())));
        processes.look(table((0, 0), (7, 0), &[(100, stat(own, "spin", (0, 0), (0, 0)))]));
        processes.look(table((0, 0), (7, 0), &[(100, stat(own, "spin", (20, 1), (0, 0)))]));
        let charges = processes.look(table((0, 0), (47, 4), &[]));
        assert_eq!(charged(&charges, "spin"), Some((20, 3, Role::Client)), "{charges:?}");
        // Too short to have been seen under its name.
        let mut processes = Processes::new([(100, Role::Client)].into_iter(), Some((100, "spin".to_owned())));
        processes.look(table((0, 0), (0, 0), &[(100, stat(own, "thalweg", (0, 0), (0, 0)))]));
        assert_eq!(charged(&processes.look(table((0, 0), (2, 1), &[])), "spin"), Some((2, 1, Role::Client)));
    }

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let mut processes = Processes::new(std::iter::empty(), None);
        processes.look(table((0, 0), (0, 0), &[(9, stat(1, "old", (500, 0), (0, 0)))]));
        let new = Stat { started_ticks: 2, ..stat(1, "new", (3, 0), (0, 0)) };
        assert_eq!(charged(&processes.look(table((0, 0), (0, 0), &[(9, new)])), "new"), Some((3, 0, Role::None)));
    }
}
