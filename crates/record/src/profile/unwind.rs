//! From the registers and the top of a stack to its frames, with the unwind tables of the files that are mapped.
//!
//! framehop makes the steps. It knows processes by what is mapped where, which here [`super::spaces`] does; so each file is given addresses
//! of its own, which no process has, and a step is asked for there: one unwinder and one cache of rules for all processes. Where it finds no
//! rule framehop falls back to the frame pointer. In code that has none this makes frames up, so each address is first looked
//! up here ([`Tables::says`], once), and a stack ends where the tables do not lead any further.
//!
//! Rejected: keeping stacks and unwinding after the recording (10 to 30 MB/s, and files that are gone by then).

use super::modules::{ModuleId, Modules};
use super::name;
use super::raw::Copied;
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

/// Tables of so many bytes are kept; files that are met later have none.
const MOST_TABLES_BYTES: u64 = 512 << 20;

/// Addresses that are remembered with what the tables say of them.
const MOST_KNOWN: usize = 1 << 20;

/// The frames of a program that are kept of one stack.
const MOST_FRAMES: usize = 512;

/// Where a program's stack may be.
const USER_ADDRESSES: std::ops::Range<u64> = 1 << 12..1 << 56;

/// Addresses that each file has: framehop's offsets in one are of 32 bits.
const FILE_SHIFT: u32 = 32;

/// How a stack ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Where its thread began.
    Whole,
    /// Past what was copied, or past the frames that are kept.
    Longer,
    /// In code without tables, or with such as are not followed.
    Untabled(Frame),
    /// Where nothing made sense any longer.
    Broken,
}

/// A stack that is followed.
#[derive(Debug)]
pub(crate) struct Walk<'a> {
    copied: Copied<'a>,
    registers: Registers,
    /// Those that have been left.
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
    // A program's addresses have 48 bits; a return address that is signed has its signature above.
    let mask = framehop::aarch64::PtrAuthMask(u64::MAX >> 16);
    Registers::new_with_ptr_auth_mask(mask, copied.lr, copied.sp, copied.fp)
}

#[cfg(target_arch = "aarch64")]
fn frame_pointer(registers: &Registers) -> u64 {
    registers.fp()
}

/// Follows the stacks of all processes.
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
    /// Of stacks of which so much is copied.
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

    /// How the stacks have ended so far.
    pub(crate) fn ends(&mut self) -> &mut Ends {
        &mut self.ends
    }

    /// The same as attributes of a recording, and what a person should know of those that are not whole.
    pub(crate) fn said(&self, modules: &Modules) -> (Vec<(String, String)>, Option<String>) {
        (self.ends.attributes(self.stack_bytes), self.ends.note(self.stack_bytes, modules))
    }

    /// The address to which a frame returns, and so the next frame.
    ///
    /// # Errors
    /// How the stack ends here.
    pub(crate) fn caller(&mut self, frame: Frame, modules: &Modules, walk: &mut Walk<'_>) -> Result<u64, End> {
        if !USER_ADDRESSES.contains(&walk.copied.sp) {
            return Err(End::Broken);
        }
        // The call of a return address is before it.
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

    /// How a stack ends of which this word was not copied: it goes on where as much was copied as was asked for.
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

    /// The tables of a file, read when it is first met.
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

/// How many stacks ended how.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    whole: u64,
    longer: u64,
    broken: u64,
    untabled: u64,
    /// Of those without tables, in which file.
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
        // Below a hundredth it does not matter to anybody.
        if all == 0 || (all - self.whole) * 100 < all {
            return None;
        }
        let mut parts = Vec::new();
        if self.longer > 0 {
            parts.push(format!("{} are longer than the {stack_bytes} bytes that are copied of each (--stack-bytes)", share(self.longer)));
        }
        if self.untabled > 0 {
            let mut files: Vec<(&str, u64)> = self.files.iter().map(|(id, count)| (name_of(*id, modules), *count)).collect();
            files.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
            let names: Vec<&str> = files.iter().take(3).map(|(name, _)| *name).collect();
            parts.push(format!("{} end in code without unwind tables that can be followed ({})", share(self.untabled), names.join(", ")));
        }
        if self.broken > 0 {
            parts.push(format!("{} do not lead on", share(self.broken)));
        }
        Some(format!("{} of the programs' stacks are whole; {}.", share(self.whole), parts.join(", ")))
    }
}

fn name_of(id: Option<ModuleId>, modules: &Modules) -> &str {
    let path = id.and_then(|id| modules.get(id)).map(|module| module.path.as_str());
    path.map_or("made while they ran", |path| path.rsplit_once('/').map_or(path, |(_, base)| base))
}
