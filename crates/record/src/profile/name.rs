//! When recording ends, converts frames to text, going file by file and looking up each frame only once.

use super::modules::{ModuleId, Modules};
use super::stacks::Frame;
use crate::symbols::{Files, JitMap, KernelSymbols, Named};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use thalweg_base::proc::maps;
use thalweg_trace::frame::{JIT, KERNEL, TRUNCATED, UNKNOWN, VDSO};
use thalweg_trace::{Event, Frame as Text, Stack};

/// Stacks passed on together.
const BATCH: usize = 512;

/// Larger than any vDSO.
const MOST_VDSO_BYTES: usize = 1 << 20;

/// Run-time generated code: noted when met in stacks, named when its process ends, or at the end.
#[derive(Debug, Default)]
pub(crate) struct JitCode {
    /// By process: its map, and the addresses without a name.
    waiting: HashMap<u32, (JitMap, HashSet<u64>)>,
    known: HashMap<(u32, u64), Named>,
}

impl JitCode {
    /// Notes an address found in a stack.
    pub(crate) fn meet(&mut self, pid: u32, address: u64) {
        self.waiting.entry(pid).or_insert_with(|| (JitMap::of(pid), HashSet::new())).1.insert(address);
    }

    /// Looks up a process's addresses when it has ended and its map is complete.
    pub(crate) fn ended(&mut self, pid: u32) {
        if let Some((mut code, addresses)) = self.waiting.remove(&pid) {
            // A return address is one past its call.
            let wanted: Vec<u64> = addresses.into_iter().flat_map(|address| [address, address - 1]).collect();
            self.known.extend(code.names(&wanted).into_iter().map(|(address, named)| ((pid, address), named)));
        }
    }

    fn end(&mut self) {
        self.waiting.keys().copied().collect::<Vec<_>>().into_iter().for_each(|pid| self.ended(pid));
    }
}

/// Returns our own vDSO, which is an ELF file and the same for every process of this word size.
pub(super) fn vdso() -> Option<(File, PathBuf)> {
    let maps = maps::of(std::process::id()).ok()?;
    let vdso = maps.iter().find(|mapping| mapping.path == Path::new("[vdso]"))?;
    let length = usize::try_from(vdso.end.checked_sub(vdso.start)?).ok()?;
    let mut bytes = vec![0; Some(length).filter(|length| *length <= MOST_VDSO_BYTES)?];
    std::os::unix::fs::FileExt::read_exact_at(&File::open("/proc/self/mem").ok()?, &mut bytes, vdso.start).ok()?;
    let fd = rustix::fs::memfd_create("thalweg-vdso", rustix::fs::MemfdFlags::CLOEXEC).ok()?;
    let mut file = File::from(fd);
    file.write_all(&bytes).ok()?;
    file.seek(SeekFrom::Start(0)).ok()?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    Some((file, path))
}

/// Returns the offset to look up: a return address is one past its call.
fn looked_up(offset: u64, is_leaf: bool) -> u64 {
    offset.saturating_sub(u64::from(!is_leaf))
}

/// Pairs the frames of a stack with whether each is a current position rather than a return address: the innermost of
/// the kernel and of the program.
fn with_leaves(frames: &[Frame]) -> impl Iterator<Item = (Frame, bool)> + '_ {
    let first_of_program = frames.iter().position(|frame| !frame.is_kernel());
    frames.iter().enumerate().map(move |(at, frame)| (*frame, at == 0 || Some(at) == first_of_program))
}

/// Names of the frames in stacks.
pub(super) struct Names {
    kernel: KernelSymbols,
    files: HashMap<ModuleId, HashMap<u64, Named>>,
    vdso: HashMap<u64, Named>,
    made: JitCode,
}

impl Names {
    pub(super) fn of(stacks: &[(u32, Box<[Frame]>)], modules: &Modules, mut made: JitCode, kernel: KernelSymbols) -> Names {
        let mut offsets: BTreeMap<ModuleId, Vec<u64>> = BTreeMap::new();
        let mut in_vdso = Vec::new();
        for (frame, is_leaf) in stacks.iter().flat_map(|(_, frames)| with_leaves(frames)) {
            match frame {
                Frame::File(module, offset) => offsets.entry(module).or_default().push(looked_up(offset, is_leaf)),
                Frame::Vdso(offset) => in_vdso.push(looked_up(offset, is_leaf)),
                Frame::Kernel(_) | Frame::Jit { .. } | Frame::Unknown | Frame::Truncated => {}
            }
        }
        made.end();
        let mut reader = Files::new();
        let mut names = Names { kernel, files: HashMap::new(), vdso: HashMap::new(), made };
        for (id, mut offsets) in offsets {
            let Some(module) = modules.get(id) else { continue };
            offsets.sort_unstable();
            offsets.dedup();
            let mut found = module.found().map(|path| reader.names(&path, &offsets)).unwrap_or_default();
            let left: Vec<u64> = offsets.into_iter().filter(|offset| !found.contains_key(offset)).collect();
            if let (false, Some(debug)) = (left.is_empty(), module.build_id.as_deref().and_then(debug_file)) {
                found.extend(reader.names(&debug, &left));
            }
            names.files.insert(id, found);
        }
        if let (false, Some((_file, path))) = (in_vdso.is_empty(), vdso()) {
            names.vdso = reader.names(&path, &in_vdso);
        }
        names
    }

    fn text(&self, frame: Frame, is_leaf: bool, modules: &Modules) -> Text {
        let named = |named: Option<&Named>, back: u64, text: Text| match named {
            Some(found) => Text { symbol: Some(found.symbol.clone()), offset: found.offset + back, ..text },
            None => text,
        };
        let plain = |module: &str| Text { module: module.to_owned(), ..Text::default() };
        let back = |offset: u64| offset - looked_up(offset, is_leaf);
        match frame {
            Frame::Kernel(address) => match self.kernel.find(looked_up(address, is_leaf)) {
                Some((found, module)) => named(Some(&found), back(address), plain(if module.is_empty() { KERNEL } else { module })),
                None => plain(KERNEL),
            },
            Frame::File(id, offset) => {
                let Some(module) = modules.get(id) else { return plain(UNKNOWN) };
                let known = self.files.get(&id).and_then(|known| known.get(&looked_up(offset, is_leaf)));
                let text = Text { build_id: module.build_id.clone(), file_offset: Some(offset), ..plain(&module.path) };
                named(known, back(offset), text)
            }
            Frame::Jit { pid, address } => named(self.made.known.get(&(pid, looked_up(address, is_leaf))), back(address), plain(JIT)),
            Frame::Vdso(offset) => named(self.vdso.get(&looked_up(offset, is_leaf)), back(offset), plain(VDSO)),
            Frame::Unknown => plain(UNKNOWN),
            Frame::Truncated => plain(TRUNCATED),
        }
    }

    pub(super) fn emit(&self, stacks: &[(u32, Box<[Frame]>)], modules: &Modules, mut hand_on: impl FnMut(&mut Vec<Event>)) {
        let mut known: HashMap<(Frame, bool), String> = HashMap::new();
        let mut batch = Vec::new();
        for (number, frames) in stacks {
            let text = |(frame, is_leaf): (Frame, bool)| {
                known.entry((frame, is_leaf)).or_insert_with(|| self.text(frame, is_leaf, modules).to_string()).clone()
            };
            batch.push(Event::Stack(Stack { stack: *number, frames: with_leaves(frames).map(text).collect() }));
            if batch.len() >= BATCH {
                hand_on(&mut batch);
            }
        }
        hand_on(&mut batch);
    }
}

/// Returns this machine's file with a file's debugging symbols.
fn debug_file(build_id: &str) -> Option<PathBuf> {
    let (first, rest) = build_id.split_at_checked(2)?;
    let path = Path::new("/usr/lib/debug/.build-id").join(first).join(format!("{rest}.debug"));
    path.is_file().then_some(path)
}

/// Passes on all stacks as text, with the names of functions if they are wanted. Returns whether the kernel hides its addresses.
pub(super) fn emit(
    stacks: &[(u32, Box<[Frame]>)],
    mut modules: Modules,
    made: JitCode,
    (kernel, with_names): (KernelSymbols, bool),
    hand_on: impl FnMut(&mut Vec<Event>),
) -> bool {
    modules.identify();
    let (wanted, made) = if with_names { (stacks, made) } else { (&[][..], JitCode::default()) };
    let names = Names::of(wanted, &modules, made, kernel);
    names.emit(stacks, &modules, hand_on);
    names.kernel.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_frames_are_where_something_was_and_the_rest_return_addresses() {
        let frames = [Frame::Kernel(1), Frame::Kernel(2), Frame::Unknown, Frame::Vdso(3)];
        assert_eq!(with_leaves(&frames).map(|(_, leaf)| leaf).collect::<Vec<_>>(), [true, false, true, false]);
        assert_eq!((looked_up(8, true), looked_up(8, false), looked_up(0, false)), (8, 7, 0));
    }

    #[test]
    fn what_has_no_name_keeps_its_file_and_its_offset() {
        let mut modules = Modules::default();
        let id = modules.number("/no/such/program", Some("0102".into())).expect("a number");
        let stacks = [(1, vec![Frame::File(id, 0x10), Frame::Jit { pid: 1, address: 16 }, Frame::Unknown].into_boxed_slice())];
        let mut emitted = Vec::new();
        emit(&stacks, modules, JitCode::default(), (KernelSymbols::here(), true), |batch| emitted.append(batch));
        let frames = ["[/no/such/program 0102+0x10]", "[jit]", "[unknown]"].map(str::to_owned).to_vec();
        assert_eq!(emitted, [Event::Stack(Stack { stack: 1, frames })]);
    }

    #[test]
    fn the_vdso_names_the_clock() {
        let Some((_file, path)) = vdso() else { return println!("SKIPPED: no vDSO here") };
        assert!(crate::symbols::build_id_of(&path).is_some());
    }
}
