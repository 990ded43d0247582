//! A program's registers and the top of its stack, copied with a sample, to be unwound outside the kernel.

/// Size of the registers as the profile's BPF programs write them.
const REGISTERS: usize = 32;

/// Maximum bytes of a stack that are copied.
pub(crate) const MOST_STACK_BYTES: u32 = 64 << 10;

/// A program's registers and the top of its stack, at its current instruction or its system call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copied<'a> {
    pub ip: u64,
    pub sp: u64,
    pub fp: u64,
    /// aarch64: the return address of a leaf function.
    #[cfg_attr(target_arch = "x86_64", allow(dead_code))]
    pub lr: u64,
    /// Memory from `sp` on.
    pub stack: &'a [u8],
}

fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

impl<'a> Copied<'a> {
    /// Parses four registers, followed by the stack.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Copied<'a>> {
        let register = |index: usize| word_at(bytes, 8 * index);
        Some(Copied { ip: register(0)?, sp: register(1)?, fp: register(2)?, lr: register(3)?, stack: bytes.get(REGISTERS..)? })
    }

    /// Returns a word of the stack, if it was copied.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        word_at(self.stack, usize::try_from(address.checked_sub(self.sp)?).ok()?)
    }
}
