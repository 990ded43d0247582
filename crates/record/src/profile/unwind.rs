//! Unwinds copied stacks, using the unwind tables of mapped files.
//!
//! framehop does the steps. It expects per-process mappings, which [`super::spaces`] already has; so each file gets
//! an address range of its own that no process uses, and steps are requested there: one unwinder and one rule cache
//! serve all processes. If framehop finds no rule, it falls back to the frame pointer. In code without frame pointers
//! this invents frames, so each address is first looked up here ([`Tables::says`], once), and a stack ends where the
//! tables lead no further.
//!
//! Rejected: keeping stacks and unwinding after the recording (10 to 30 MB/s, and files that are gone by then).

use super::copied::Copied;
use super::modules::{ModuleId, Modules};
use super::name;
use super::stacks::{Frame, Mixer};
use super::tables::{Says, Tables};
use framehop::{CacheNative, FrameAddress, MayAllocateDuringUnwind, Module, Unwinder as _, UnwinderNative};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

#[cfg(target_arch = "x86_64")]
type Registers = framehop::x86_64::UnwindRegsX86_64;
#[cfg(target_arch = "aarch64")]
type Registers = framehop::aarch64::UnwindRegsAarch64;

/// Maximum size of all tables; files met later have none.
const MOST_TABLES_BYTES: u64 = 512 << 20;

/// Maximum addresses remembered with their tables' answer.
const MOST_KNOWN: usize = 1 << 20;

/// Maximum user frames of one stack.
const MOST_FRAMES: usize = 512;

/// Where a user stack can be.
const USER_ADDRESSES: std::ops::Range<u64> = 1 << 12..1 << 56;

/// Address range of each file: framehop's offsets within a file have 32 bits.
const FILE_SHIFT: u32 = 32;

/// How a stack ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// At the start of its thread.
    Whole,
    /// Beyond the copied part, or at the maximum number of frames.
    Longer,
    /// In code without tables, or with tables that cannot be followed.
    Untabled(Frame),
    /// At an invalid frame.
    Broken,
}

/// A stack being unwound.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    copied: Copied<'a>,
    registers: Registers,
    /// Frames left so far.
    frames: usize,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(copied: Copied<'a>) -> Walk<'a> {
        Walk { copied, registers: registers(&copied), frames: 0 }
    }

    fn is_innermost(&self) -> bool {
        self.frames == 0
    }
}

#[cfg(target_arch = "x86_64")]
fn registers(copied: &Copied<'_>) -> Registers {
    Registers::new(copied.ip, copied.sp, copied.fp)
}

#[cfg(target_arch = "x86_64")]
fn frame_pointer(registers: &Registers) -> u64 {
    registers.bp()
}

#[cfg(target_arch = "aarch64")]
fn registers(copied: &Copied<'_>) -> Registers {
    // User addresses have 48 bits; a signed return address has its signature above.
    let mask = framehop::aarch64::PtrAuthMask(u64::MAX >> 16);
    Registers::new_with_ptr_auth_mask(mask, copied.lr, copied.sp, copied.fp)
}

#[cfg(target_arch = "aarch64")]
fn frame_pointer(registers: &Registers) -> u64 {
    registers.fp()
}

/// Unwinds the stacks of all processes.
pub(crate) struct Unwinder {
    native: UnwinderNative<Arc<[u8]>, MayAllocateDuringUnwind>,
    rules: CacheNative<MayAllocateDuringUnwind>,
    context: gimli::UnwindContext<usize>,
    files: HashMap<u64, Option<Tables>>,
    known: HashMap<u64, Says, BuildHasherDefault<Mixer>>,
    size_bytes: u64,
    stack_bytes: u32,
    ends: Ends,
}

impl std::fmt::Debug for Unwinder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unwinder").field("files", &self.files.len()).field("size_bytes", &self.size_bytes).finish_non_exhaustive()
    }
}

impl Unwinder {
    /// Creates an unwinder for stacks of which `stack_bytes` are copied.
    pub(crate) fn new(stack_bytes: u32) -> Unwinder {
        Unwinder {
            native: UnwinderNative::new(),
            rules: CacheNative::new(),
            context: gimli::UnwindContext::new(),
            files: HashMap::new(),
            known: HashMap::default(),
            size_bytes: 0,
            stack_bytes,
            ends: Ends::default(),
        }
    }

    /// Returns the counts of how stacks ended.
    pub(crate) fn ends(&mut self) -> &mut Ends {
        &mut self.ends
    }

    /// Returns these counts as attributes of a recording, and a note for the user on incomplete stacks.
    pub(crate) fn summary(&self, modules: &Modules) -> (Vec<(String, String)>, Option<String>) {
        (self.ends.attributes(self.stack_bytes), self.ends.note(self.stack_bytes, modules))
    }

    /// Returns the return address of a frame, which leads to the next frame.
    ///
    /// # Errors
    /// How the stack ends here.
    pub(crate) fn caller(&mut self, frame: Frame, modules: &Modules, walk: &mut Walk<'_>) -> Result<u64, End> {
        if !USER_ADDRESSES.contains(&walk.copied.sp) {
            return Err(End::Broken);
        }
        // A return address is one past its call.
        let back = u64::from(!walk.is_innermost());
        let (file, offset) = match frame {
            Frame::File(id, offset) => (u64::from(id.0) + 1, offset),
            Frame::Vdso(offset) => (0, offset),
            _ => return Err(End::Untabled(frame)),
        };
        let tables = self.tables(file, frame, modules).ok_or(End::Untabled(frame))?;
        let range = tables.range();
        let address = offset.checked_sub(back).and_then(|offset| tables.address(offset)).ok_or(End::Untabled(frame))?;
        let within = (file << FILE_SHIFT) + (address - range.start);
        match self.says(file, address, within) {
            Says::Outermost => return Err(End::Whole),
            Says::Nothing => return Err(End::Untabled(frame)),
            Says::Caller { needs } => {
                let needed = needs.map(|needs| frame_pointer(&walk.registers).wrapping_add_signed(needs));
                if needed.is_some_and(|needed| walk.copied.word(needed).is_none()) {
                    return Err(self.without(needed.unwrap_or(0), walk));
                }
            }
        }
        let at = match walk.is_innermost() {
            true => Some(FrameAddress::from_instruction_pointer(within)),
            false => FrameAddress::from_return_address(within + back),
        };
        let copied = walk.copied;
        let mut read = |address| copied.word(address).ok_or(());
        let found = self.native.unwind_frame(at.ok_or(End::Broken)?, &mut walk.registers, &mut self.rules, &mut read);
        walk.frames += 1;
        match found {
            Ok(Some(_)) if walk.frames >= MOST_FRAMES => Err(End::Longer),
            Ok(Some(address)) => Ok(address),
            Ok(None) => Err(End::Whole),
            Err(framehop::Error::CouldNotReadStack(address)) => Err(self.without(address, walk)),
            Err(_) => Err(End::Broken),
        }
    }

    /// Returns how a stack ends at a word that was not copied: it is longer if the full requested size was copied.
    fn without(&self, address: u64, walk: &Walk<'_>) -> End {
        let copied = walk.copied.stack.len() as u64;
        let is_past = address.checked_sub(walk.copied.sp).is_some_and(|into| into.saturating_add(8) > copied);
        if is_past && copied >= self.stack_bytes.into() { End::Longer } else { End::Broken }
    }

    fn says(&mut self, file: u64, address: u64, within: u64) -> Says {
        if let Some(known) = self.known.get(&within) {
            return *known;
        }
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        let tables = self.files.get(&file).and_then(Option::as_ref);
        let says = tables.map_or(Says::Nothing, |tables| tables.says(address, &mut self.context));
        self.known.insert(within, says);
        says
    }

    /// Returns a file's tables, read on first use.
    fn tables(&mut self, file: u64, frame: Frame, modules: &Modules) -> Option<&Tables> {
        if !self.files.contains_key(&file) {
            let tables = if self.size_bytes < MOST_TABLES_BYTES { read(frame, modules) } else { None };
            self.add(file, tables);
        }
        self.files.get(&file)?.as_ref()
    }

    fn add(&mut self, file: u64, tables: Option<Tables>) {
        let tables = tables.filter(|tables| tables.range().end - tables.range().start <= 1 << FILE_SHIFT);
        if let Some(tables) = &tables {
            self.size_bytes += tables.size_bytes();
            let (start, length) = (file << FILE_SHIFT, tables.range().end - tables.range().start);
            self.native.add_module(Module::new(String::new(), start..start + length, start, tables.sections()));
        }
        self.files.insert(file, tables);
    }
}

fn read(frame: Frame, modules: &Modules) -> Option<Tables> {
    match frame {
        Frame::File(id, _) => Tables::of(&modules.get(id)?.opened()?),
        Frame::Vdso(_) => Tables::of(&name::vdso()?.0),
        _ => None,
    }
}

/// Counts of how stacks ended.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    whole: u64,
    longer: u64,
    broken: u64,
    untabled: u64,
    /// Those without tables, by file.
    files: HashMap<Option<ModuleId>, u64>,
}

impl Ends {
    pub(crate) fn count(&mut self, end: End) {
        match end {
            End::Whole => self.whole += 1,
            End::Longer => self.longer += 1,
            End::Broken => self.broken += 1,
            End::Untabled(frame) => {
                self.untabled += 1;
                let file = if let Frame::File(id, _) = frame { Some(id) } else { None };
                *self.files.entry(file).or_default() += 1;
            }
        }
    }

    fn attributes(&self, stack_bytes: u32) -> Vec<(String, String)> {
        let numbers = [
            ("stack_bytes", stack_bytes.into()),
            ("stacks_whole", self.whole),
            ("stacks_longer", self.longer),
            ("stacks_untabled", self.untabled),
            ("stacks_broken", self.broken),
        ];
        numbers.into_iter().map(|(name, number)| (format!("profile.{name}"), number.to_string())).collect()
    }

    fn note(&self, stack_bytes: u32, modules: &Modules) -> Option<String> {
        let all = self.whole + self.longer + self.untabled + self.broken;
        let share = |count: u64| format!("{:.1} %", 100.0 * count as f64 / all as f64);
        // Below one per cent it is not worth a note.
        if all == 0 || (all - self.whole) * 100 < all {
            return None;
        }
        let mut parts = Vec::new();
        if self.longer > 0 {
            parts.push(format!("{} are longer than the {stack_bytes} bytes copied of each (--stack-bytes)", share(self.longer)));
        }
        if self.untabled > 0 {
            let mut files: Vec<(&str, u64)> = self.files.iter().map(|(id, count)| (name_of(*id, modules), *count)).collect();
            files.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
            let names: Vec<&str> = files.iter().take(3).map(|(name, _)| *name).collect();
            parts.push(format!("{} end in code without usable unwind tables ({})", share(self.untabled), names.join(", ")));
        }
        if self.broken > 0 {
            parts.push(format!("{} end at an invalid frame", share(self.broken)));
        }
        Some(format!("{} of the programs' stacks are complete; {}.", share(self.whole), parts.join(", ")))
    }
}

fn name_of(id: Option<ModuleId>, modules: &Modules) -> &str {
    let path = id.and_then(|id| modules.get(id)).map(|module| module.path.as_str());
    path.map_or("generated at run time", |path| path.rsplit_once('/').map_or(path, |(_, base)| base))
}
