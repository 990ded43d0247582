//! Stores each distinct stack once.

use super::modules::ModuleId;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// An unnamed frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Frame {
    /// A kernel address.
    Kernel(u64),
    /// An offset in a file.
    File(ModuleId, u64),
    /// Run-time generated code of a process.
    Jit { pid: u32, address: u64 },
    /// An offset in the vDSO.
    Vdso(u64),
    /// An address without a mapping.
    Unknown,
    /// Not a frame: the stack could not be followed further.
    Truncated,
}

impl Frame {
    /// Whether it is in the kernel.
    pub(crate) fn is_kernel(self) -> bool {
        matches!(self, Frame::Kernel(_))
    }
}

/// Maximum stacks and frames kept: 100 MB. Beyond it a stack is cut down to the innermost frames of the kernel and
/// the program.
const MOST_STACKS: usize = 1 << 19;
const MOST_FRAMES: usize = 4 << 20;

/// Hashes words: a stack has about a hundred, and the standard hasher would take as long as the rest of a sample.
/// Collisions are harmless, because stacks are compared.
#[derive(Debug, Default)]
pub(crate) struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }
    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
    fn write_isize(&mut self, word: isize) {
        self.write_u64(word as u64);
    }
}

/// All stacks so far.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    numbers: HashMap<Box<[Frame]>, u32, BuildHasherDefault<Mixer>>,
    frames: usize,
    /// Number of stacks cut down.
    pub cut: u64,
}

impl Stacks {
    /// Returns a stack's number: from 1, in order of first appearance.
    pub(crate) fn number(&mut self, stack: &[Frame]) -> u32 {
        if let Some(known) = self.numbers.get(stack) {
            return *known;
        }
        if self.numbers.len() >= MOST_STACKS || self.frames >= MOST_FRAMES {
            let first_of_program = stack.iter().position(|frame| !frame.is_kernel());
            let leaf = stack.first().copied().filter(|frame| frame.is_kernel());
            let ends: Vec<Frame> = leaf.into_iter().chain(first_of_program.map(|at| stack[at])).collect();
            if ends.len() < stack.len() {
                self.cut += 1;
                return self.number(&ends);
            }
        }
        let number = u32::try_from(self.numbers.len() + 1).unwrap_or(u32::MAX);
        self.frames += stack.len();
        self.numbers.insert(stack.into(), number);
        number
    }

    /// Returns all stacks, by number.
    pub(crate) fn into_sorted(self) -> Vec<(u32, Box<[Frame]>)> {
        let mut all: Vec<(u32, Box<[Frame]>)> = self.numbers.into_iter().map(|(frames, number)| (number, frames)).collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_stacks_are_one_and_stand_in_the_order_of_their_numbers() {
        let mut stacks = Stacks::default();
        let (one, other) = ([Frame::Kernel(1), Frame::Unknown], [Frame::Kernel(2)]);
        assert_eq!([stacks.number(&one), stacks.number(&other), stacks.number(&one)], [1, 2, 1]);
        let sorted = stacks.into_sorted();
        assert_eq!((sorted[0].0, &*sorted[0].1, sorted[1].0), (1, &one[..], 2));
    }

    #[test]
    fn past_the_bound_a_stack_keeps_both_of_its_leaves() {
        let mut stacks = Stacks { frames: MOST_FRAMES, ..Stacks::default() };
        let user = Frame::File(ModuleId(0), 7);
        let number = stacks.number(&[Frame::Kernel(1), Frame::Kernel(2), user, Frame::Unknown]);
        assert_eq!((number, stacks.cut), (stacks.number(&[Frame::Kernel(1), user]), 1));
    }
}
