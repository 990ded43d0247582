//! Each process's executable mappings and role.
//!
//! A process older than the recording has its mappings from /proc, read when it first appears in a stack, and again
//! (not often) when an address has no mapping. Later changes come from perf's records, merged with the samples in
//! order of time.

use super::events::{Happened, What};
use super::modules::{ModuleId, Modules};
use super::name::JitCode;
use super::stacks::{Frame, Mixer};
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_base::proc::maps::{self, Maps};
use thalweg_trace::Role;

/// Maximum mappings known per process.
const MOST_MAPPINGS: usize = 8_192;

/// Maximum processes whose maps are read at the start.
const MOST_AT_FIRST: usize = 4_096;

/// Minimum interval between two reads of a process's maps.
const READ_AGAIN: Duration = Duration::from_millis(200);

/// Useless reads of maps after which a process is not read again.
const MOST_READS: u32 = 32;

/// The origin of the code at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Backing {
    /// A file.
    File(ModuleId),
    /// Code generated at run time.
    Jit,
    /// Code that the kernel maps into each process.
    Vdso,
}

/// A range of a process's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub start: u64,
    pub end: u64,
    pub file_offset: u64,
    pub backing: Backing,
}

/// One address space.
#[derive(Clone, Debug, Default)]
struct Space {
    /// By start, without overlap. Shared by a process and its children until one of them changes.
    maps: Arc<BTreeMap<u64, Mapping>>,
    /// Mappings before exec: until the new program's first instruction, stacks end in the code that called exec.
    before: Arc<BTreeMap<u64, Mapping>>,
    read_at: Option<Instant>,
    reads: u32,
}

/// The processes met so far.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    processes: HashMap<u32, Space, BuildHasherDefault<Mixer>>,
    roles: HashMap<u32, Role>,
}

fn backing_of(path: &str, build_id: Option<String>, modules: &mut Modules) -> Option<Backing> {
    Some(match path {
        "[vdso]" => Backing::Vdso,
        path if path.starts_with("/memfd:") || path.starts_with("/dev/zero") || path.starts_with("/SYSV") => Backing::Jit,
        path if path.starts_with('/') && !path.starts_with("//") => Backing::File(modules.number(path, build_id)?),
        "[vsyscall]" | "[uprobes]" => return None,
        _ => Backing::Jit,
    })
}

/// Returns the executable mappings.
fn executable(maps: &Maps, modules: &mut Modules) -> BTreeMap<u64, Mapping> {
    let placed = |mapped: maps::Mapping<'_>| {
        let backing = backing_of(&mapped.path.to_string_lossy(), None, modules)?;
        Some(Mapping { start: mapped.start, end: mapped.end, file_offset: mapped.offset, backing })
    };
    let all = maps.iter().filter(|mapped| mapped.is_executable).filter_map(placed);
    all.take(MOST_MAPPINGS).map(|mapping| (mapping.start, mapping)).collect()
}

fn insert(maps: &mut BTreeMap<u64, Mapping>, new: Mapping) {
    // The new mapping replaces what it covers; parts on either side remain.
    let before = maps.range(..new.start).next_back().map(|(_, m)| *m).filter(|m| m.end > new.start);
    let within: Vec<u64> = maps.range(new.start..new.end).map(|(start, _)| *start).collect();
    let last = within.last().and_then(|start| maps.get(start)).copied().or(before).filter(|m| m.end > new.end);
    for start in &within {
        maps.remove(start);
    }
    if let Some(rest) = last {
        maps.insert(new.end, Mapping { start: new.end, file_offset: rest.file_offset + (new.end - rest.start), ..rest });
    }
    if let Some(before) = before {
        maps.insert(before.start, Mapping { end: new.start, ..before });
    }
    if maps.len() < MOST_MAPPINGS {
        maps.insert(new.start, new);
    }
}

impl Spaces {
    /// Reads the mappings of running processes, so that their children's are known from the start.
    pub(crate) fn begin(&mut self, modules: &mut Modules) {
        for pid in crate::proc::processes::all()
            .into_values()
            .filter(|process| !process.is_kernel())
            .take(MOST_AT_FIRST)
            .map(|process| process.pid)
        {
            self.find(pid, 0, modules);
            self.processes.entry(pid).or_default().reads = 0;
        }
    }

    /// Sets a process's role, which its children inherit.
    pub(crate) fn has_role(&mut self, pid: u32, role: Role) {
        self.roles.insert(pid, role);
    }

    /// Returns a process's role.
    pub(crate) fn role(&self, pid: u32) -> Role {
        self.roles.get(&pid).copied().unwrap_or(Role::None)
    }

    /// Applies a process event.
    pub(crate) fn happened(&mut self, happened: Happened, modules: &mut Modules) {
        let pid = happened.pid;
        match happened.what {
            What::Forked { parent } => {
                let space = self.processes.get(&parent).map(|space| Space { reads: 0, before: Arc::default(), ..space.clone() });
                match space {
                    Some(space) => drop(self.processes.insert(pid, space)),
                    None => drop(self.processes.remove(&pid)),
                }
                match self.roles.get(&parent).copied() {
                    Some(role) => drop(self.roles.insert(pid, role)),
                    None => drop(self.roles.remove(&pid)),
                }
            }
            // Everything mapped from here on is recorded.
            What::Began => {
                let space = self.processes.entry(pid).or_default();
                let before = std::mem::take(&mut space.maps);
                *space = Space { before, read_at: Some(Instant::now()), ..Space::default() };
            }
            What::Ended { tid } if tid == pid => {
                self.processes.remove(&pid);
                self.roles.remove(&pid);
            }
            What::Ended { .. } => {}
            What::Mapped { start, end, file_offset, path, build_id } => {
                // For a process not yet examined, /proc has more than this event.
                let Some(space) = self.processes.get_mut(&pid) else { return };
                if let Some(backing) = backing_of(&path, build_id, modules) {
                    insert(Arc::make_mut(&mut space.maps), Mapping { start, end, file_offset, backing });
                }
            }
        }
    }

    /// Returns the mapping at an address of a process.
    pub(crate) fn find(&mut self, pid: u32, address: u64, modules: &mut Modules) -> Option<Mapping> {
        let space = self.processes.entry(pid).or_default();
        if let Some(found) = space.at(address) {
            return Some(found);
        }
        let now = Instant::now();
        if space.reads >= MOST_READS || space.read_at.is_some_and(|read_at| now - read_at < READ_AGAIN) {
            return None;
        }
        (space.read_at, space.reads) = (Some(now), space.reads + 1);
        let maps = executable(&maps::of(pid).ok()?, modules);
        if !maps.is_empty() {
            space.maps = Arc::new(maps);
        }
        space.at(address)
    }

    /// Resolves an address of a process to a frame.
    pub(crate) fn frame(&mut self, pid: u32, address: u64, modules: &mut Modules, made: &mut JitCode) -> Frame {
        let Some(mapping) = self.find(pid, address, modules) else { return Frame::Unknown };
        let offset = mapping.file_offset + (address - mapping.start);
        match mapping.backing {
            Backing::File(module) => {
                modules.meet(module, pid, mapping.start..mapping.end);
                Frame::File(module, offset)
            }
            Backing::Jit => {
                made.meet(pid, address);
                Frame::Jit { pid, address }
            }
            Backing::Vdso => Frame::Vdso(offset),
        }
    }

    /// Forgets a process's mappings when it runs another program.
    pub(crate) fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }
}

impl Space {
    fn at(&self, address: u64) -> Option<Mapping> {
        let find = |maps: &BTreeMap<u64, Mapping>| maps.range(..=address).next_back().map(|(_, mapping)| *mapping);
        [&self.maps, &self.before].into_iter().filter_map(|maps| find(maps)).find(|mapping| address < mapping.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64, file_offset: u64) -> Mapping {
        Mapping { start, end, file_offset, backing: Backing::Jit }
    }

    #[test]
    fn maps_have_what_is_executable_by_what_it_is() {
        let text = b"55d000-55e000 r-xp 00001000 fe:00 12 /usr/bin/a b (deleted)\n55e000-55f000 rw-p 00002000 fe:00 12 /usr/bin/a b\n\
                    7f0000-7f1000 r-xp 00000000 00:00 0 \n7ff000-7ff200 r-xp 00000000 00:00 0                          [vdso]\n\
                    ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";
        let mut modules = Modules::default();
        let maps: Vec<Mapping> = executable(&Maps::parse(text), &mut modules).into_values().collect();
        let file = modules.number("/usr/bin/a b", None).expect("known");
        assert_eq!(maps.iter().map(|m| m.backing).collect::<Vec<_>>(), [Backing::File(file), Backing::Jit, Backing::Vdso]);
        assert_eq!((maps[0].start, maps[0].end, maps[0].file_offset), (0x55d000, 0x55e000, 0x1000));
    }

    #[test]
    fn a_new_mapping_replaces_what_lay_under_it_and_no_more() {
        let mut maps = BTreeMap::new();
        insert(&mut maps, mapping(100, 200, 1_000));
        insert(&mut maps, mapping(120, 150, 0));
        assert_eq!(maps.values().copied().collect::<Vec<_>>(), [mapping(100, 120, 1_000), mapping(120, 150, 0), mapping(150, 200, 1_050)]);
        insert(&mut maps, mapping(110, 160, 7));
        assert_eq!(maps.values().copied().collect::<Vec<_>>(), [mapping(100, 110, 1_000), mapping(110, 160, 7), mapping(160, 200, 1_060)]);
    }

    #[test]
    fn a_child_has_its_parent_s_mappings_and_role_until_it_begins_another_program() {
        let (mut spaces, mut modules) = (Spaces::default(), Modules::default());
        let at = |pid, what| Happened { at_ns: 0, pid, what };
        // Numbers that no process has here.
        let (parent, child) = (u32::MAX - 1, u32::MAX);
        spaces.has_role(parent, Role::Client);
        spaces.happened(at(parent, What::Began), &mut modules);
        let path = "/bin/x".to_owned();
        spaces.happened(at(parent, What::Mapped { start: 10, end: 20, file_offset: 0, path, build_id: None }), &mut modules);
        spaces.happened(at(child, What::Forked { parent }), &mut modules);
        assert!(spaces.find(child, 15, &mut modules).is_some());
        spaces.happened(at(child, What::Began), &mut modules);
        assert!(spaces.find(child, 15, &mut modules).is_some(), "it is still on its way out of what called for the program");
        spaces.happened(at(child, What::Began), &mut modules);
        assert_eq!((spaces.find(child, 15, &mut modules), spaces.role(child)), (None, Role::Client));
        assert!(spaces.find(parent, 15, &mut modules).is_some());
        spaces.happened(at(child, What::Ended { tid: child }), &mut modules);
        assert_eq!(spaces.role(child), Role::None);
    }
}
