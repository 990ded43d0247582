//! What is mapped executable in each process, and on whose behalf the process works.
//!
//! A process that was there before has its mappings from /proc, read when a stack of it is first met, and again (not often) when an
//! address is in none. What happens from then on is known from perf's records, in the order of time with the samples.

use super::events::{Happened, What};
use super::modules::{ModuleId, Modules};
use super::name::Made;
use super::stacks::{Frame, Mixer};
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;
use std::rc::Rc;
use std::time::{Duration, Instant};
use thalweg_base::proc::maps::{self, Maps};
use thalweg_trace::Role;

/// Mappings of a process that are known at most.
const MOST_MAPPINGS: usize = 8_192;

/// Processes whose maps are read at the beginning.
const MOST_AT_FIRST: usize = 4_096;

/// Between two reads of one process' maps.
const READ_AGAIN: Duration = Duration::from_millis(200);

/// Reads of maps that were of no use, after which a process is asked no more.
const MOST_READS: u32 = 32;

/// What an address belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// A file.
    File(ModuleId),
    /// Code that the program made.
    Made,
    /// What the kernel maps into each process.
    Vdso,
}

/// A piece of a process' addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub start: u64,
    pub end: u64,
    pub file_offset: u64,
    pub place: Place,
}

/// One process.
#[derive(Clone, Debug, Default)]
struct Space {
    /// By start, without overlap. Shared between a process and its children until one of them changes.
    maps: Rc<BTreeMap<u64, Mapping>>,
    /// What was mapped before the program began: until its first instruction, stacks end where the one before called for it.
    before: Rc<BTreeMap<u64, Mapping>>,
    read_at: Option<Instant>,
    reads: u32,
}

/// The processes that were met.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    processes: HashMap<u32, Space, BuildHasherDefault<Mixer>>,
    roles: HashMap<u32, Role>,
}

fn place_of(path: &str, build_id: Option<String>, modules: &mut Modules) -> Option<Place> {
    Some(match path {
        "[vdso]" => Place::Vdso,
        path if path.starts_with("/memfd:") || path.starts_with("/dev/zero") || path.starts_with("/SYSV") => Place::Made,
        path if path.starts_with('/') && !path.starts_with("//") => Place::File(modules.number(path, build_id)?),
        "[vsyscall]" | "[uprobes]" => return None,
        _ => Place::Made,
    })
}

/// The executable ones.
fn executable(maps: &Maps, modules: &mut Modules) -> BTreeMap<u64, Mapping> {
    let placed = |mapped: maps::Mapping<'_>| {
        let place = place_of(&mapped.path.to_string_lossy(), None, modules)?;
        Some(Mapping { start: mapped.start, end: mapped.end, file_offset: mapped.offset, place })
    };
    let all = maps.iter().filter(|mapped| mapped.is_executable).filter_map(placed);
    all.take(MOST_MAPPINGS).map(|mapping| (mapping.start, mapping)).collect()
}

fn insert(maps: &mut BTreeMap<u64, Mapping>, new: Mapping) {
    // What lay there is replaced; what reaches out of it on either side stays.
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
    /// Reads what is mapped in the processes that are there, so that their children are known from the first on.
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

    /// A process works on somebody's behalf, and so does what it starts.
    pub(crate) fn has_role(&mut self, pid: u32, role: Role) {
        self.roles.insert(pid, role);
    }

    /// On whose behalf a process works.
    pub(crate) fn role(&self, pid: u32) -> Role {
        self.roles.get(&pid).copied().unwrap_or(Role::None)
    }

    /// Something has happened to a process.
    pub(crate) fn happened(&mut self, happened: Happened, modules: &mut Modules) {
        let pid = happened.pid;
        match happened.what {
            What::Forked { parent } => {
                let space = self.processes.get(&parent).map(|space| Space { reads: 0, before: Rc::default(), ..space.clone() });
                match space {
                    Some(space) => drop(self.processes.insert(pid, space)),
                    None => drop(self.processes.remove(&pid)),
                }
                match self.roles.get(&parent).copied() {
                    Some(role) => drop(self.roles.insert(pid, role)),
                    None => drop(self.roles.remove(&pid)),
                }
            }
            // All of it is recorded from here on.
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
                // Of a process that nobody has looked at yet, /proc says more than this.
                let Some(space) = self.processes.get_mut(&pid) else { return };
                if let Some(place) = place_of(&path, build_id, modules) {
                    insert(Rc::make_mut(&mut space.maps), Mapping { start, end, file_offset, place });
                }
            }
        }
    }

    /// What is mapped at an address of a process.
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
            space.maps = Rc::new(maps);
        }
        space.at(address)
    }

    /// What an address of a process is.
    pub(crate) fn frame(&mut self, pid: u32, address: u64, modules: &mut Modules, made: &mut Made) -> Frame {
        let Some(mapping) = self.find(pid, address, modules) else { return Frame::Unknown };
        let offset = mapping.file_offset + (address - mapping.start);
        match mapping.place {
            Place::File(module) => {
                modules.meet(module, pid, mapping.start..mapping.end);
                Frame::File(module, offset)
            }
            Place::Made => {
                made.meet(pid, address);
                Frame::Made { pid, address }
            }
            Place::Vdso => Frame::Vdso(offset),
        }
    }

    /// The process runs another program: what was mapped is no more.
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
        Mapping { start, end, file_offset, place: Place::Made }
    }

    #[test]
    fn maps_have_what_is_executable_by_what_it_is() {
        let text = b"55d000-55e000 r-xp 00001000 fe:00 12 /usr/bin/a b (deleted)\n55e000-55f000 rw-p 00002000 fe:00 12 /usr/bin/a b\n\
                    7f0000-7f1000 r-xp 00000000 00:00 0 \n7ff000-7ff200 r-xp 00000000 00:00 0                          [vdso]\n\
                    ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";
        let mut modules = Modules::default();
        let maps: Vec<Mapping> = executable(&Maps::parse(text), &mut modules).into_values().collect();
        let file = modules.number("/usr/bin/a b", None).expect("known");
        assert_eq!(maps.iter().map(|m| m.place).collect::<Vec<_>>(), [Place::File(file), Place::Made, Place::Vdso]);
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
