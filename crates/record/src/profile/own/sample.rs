//! The stack of a sample: addresses that the kernel found by frame pointers, or registers and a copy of the stack.

use crate::profile::copied::Copied;

/// The registers that are copied (`perf_event_x86_regs`, `perf_event_arm_regs`), in the kernel's order.
#[cfg(target_arch = "x86_64")]
mod registers {
    /// BP, SP, IP.
    pub(in super::super) const MASK: u64 = 1 << 6 | 1 << 7 | 1 << 8;
    pub(super) const FP: usize = 0;
    pub(super) const SP: usize = 1;
    pub(super) const IP: usize = 2;
    /// There is no link register; a call stores its return address on the stack.
    pub(super) const LR: usize = 2;
    pub(super) const COUNT: usize = 3;
}

#[cfg(target_arch = "aarch64")]
mod registers {
    /// X29, LR, SP, PC.
    pub(in super::super) const MASK: u64 = 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32;
    pub(super) const FP: usize = 0;
    pub(super) const LR: usize = 1;
    pub(super) const SP: usize = 2;
    pub(super) const IP: usize = 3;
    pub(super) const COUNT: usize = 4;
}

pub(super) use registers::MASK;

/// Values of the chain from here on are not addresses, but say whose the following ones are.
const FIRST_CONTEXT: u64 = (-4_095_i64).cast_unsigned();

/// The registers' kind: of 64-bit code.
const ABI_64: u64 = 2;

/// A sample's stack, in place.
#[derive(Clone, Copy, Debug)]
pub(super) struct SampledStack<'a> {
    chain: &'a [u8],
    pub copied: Option<Copied<'a>>,
}

impl<'a> SampledStack<'a> {
    /// Parses what follows a sample's identity; `has_copy`: registers and a copy of the stack were asked for.
    pub(super) fn parse(bytes: &'a [u8], has_copy: bool) -> Option<SampledStack<'a>> {
        let (count, rest) = word(bytes)?;
        let (chain, rest) = rest.split_at_checked(usize::try_from(count).ok()?.checked_mul(8)?)?;
        let copied = if has_copy { copied(rest) } else { None };
        Some(SampledStack { chain, copied })
    }

    /// Iterates over the addresses, innermost first.
    pub(super) fn addresses(&self) -> impl Iterator<Item = u64> + 'a {
        self.chain.as_chunks::<8>().0.iter().map(|address| u64::from_ne_bytes(*address)).filter(|address| *address < FIRST_CONTEXT)
    }
}

/// The copy; `None` for 32-bit code, and where the kernel could copy nothing.
fn copied(bytes: &[u8]) -> Option<Copied<'_>> {
    let (abi, rest) = word(bytes)?;
    if abi != ABI_64 {
        return None;
    }
    let (values, rest) = rest.split_at_checked(8 * registers::COUNT)?;
    let register = |index: usize| Some(word(values.get(8 * index..)?)?.0);
    let (size, rest) = word(rest)?;
    let (stack, rest) = rest.split_at_checked(usize::try_from(size).ok()?)?;
    let (filled, _) = word(rest)?;
    Some(Copied {
        ip: register(registers::IP)?,
        sp: register(registers::SP)?,
        fp: register(registers::FP)?,
        lr: register(registers::LR)?,
        stack: stack.get(..usize::try_from(filled).ok()?)?,
    })
}

fn word(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (word, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_ne_bytes(*word), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn a_chain_has_addresses_and_no_marks() {
        let of_user = (-512_i64).cast_unsigned();
        let chain = bytes(&[3, of_user, 0x40_1000, 0x40_2000]);
        let stack = SampledStack::parse(&chain, false).expect("whole");
        assert_eq!((stack.addresses().collect::<Vec<_>>(), stack.copied.is_none()), (vec![0x40_1000, 0x40_2000], true));
        for length in 0..chain.len() {
            assert!(SampledStack::parse(&chain[..length], false).is_none());
        }
        assert!(SampledStack::parse(&bytes(&[u64::MAX]), false).is_none());
    }

    #[test]
    fn a_copy_ends_where_the_kernel_could_read_no_further() {
        let values: Vec<u64> = (1..=registers::COUNT as u64).collect();
        let whole = bytes(&[&[0, ABI_64][..], &values, &[24, 11, 12, 13, 16]].concat());
        let copied = SampledStack::parse(&whole, true).and_then(|stack| stack.copied).expect("a copy");
        assert_eq!((copied.fp, copied.sp, copied.ip), (1, registers::SP as u64 + 1, registers::IP as u64 + 1));
        assert_eq!(copied.stack, bytes(&[11, 12]));
        let of_32 = bytes(&[&[0, 1][..], &values, &[24, 11, 12, 13, 16]].concat());
        assert!(SampledStack::parse(&of_32, true).expect("whole").copied.is_none());
        for length in 8..whole.len() {
            assert!(SampledStack::parse(&whole[..length], true).expect("a chain").copied.is_none());
        }
    }
}
