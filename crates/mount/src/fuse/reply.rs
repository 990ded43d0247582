//! Encoding of answers.

use super::abi;
use std::time::Duration;

/// Attributes in the kernel's form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) struct Attr {
    pub number: u64,
    pub size_bytes: u64,
    /// Blocks of 512 bytes.
    pub blocks: u64,
    pub accessed_ns: i64,
    pub modified_ns: i64,
    pub changed_ns: i64,
    /// Mode, including the file type.
    pub mode: u32,
    pub links: u32,
    pub uid: u32,
    pub gid: u32,
    pub device: u32,
    /// Preferred I/O size.
    pub block_bytes: u32,
}

/// How long the kernel may cache a name and attributes.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub(crate) struct Lifetimes {
    pub entry: Duration,
    pub attributes: Duration,
}

fn u32s(out: &mut Vec<u8>, numbers: &[u32]) {
    numbers.iter().for_each(|n| out.extend(n.to_ne_bytes()));
}

fn u64s(out: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|n| out.extend(n.to_ne_bytes()));
}

fn attr(out: &mut Vec<u8>, a: &Attr) {
    let seconds = |ns: i64| ns.div_euclid(1_000_000_000) as u64;
    let rest = |ns: i64| ns.rem_euclid(1_000_000_000) as u32;
    u64s(out, &[a.number, a.size_bytes, a.blocks, seconds(a.accessed_ns), seconds(a.modified_ns), seconds(a.changed_ns)]);
    u32s(out, &[rest(a.accessed_ns), rest(a.modified_ns), rest(a.changed_ns), a.mode, a.links, a.uid, a.gid, a.device, a.block_bytes, 0]);
}

/// Bytes of an encoded entry.
pub(crate) const ENTRY_BYTES: usize = 128;

/// Appends an entry: a file and its attributes. Node 0: the name exists, its attributes are unknown.
pub(crate) fn entry(out: &mut Vec<u8>, node: u64, attributes: &Attr, lifetimes: Lifetimes) {
    u64s(out, &[node, 0, lifetimes.entry.as_secs(), lifetimes.attributes.as_secs()]);
    u32s(out, &[lifetimes.entry.subsec_nanos(), lifetimes.attributes.subsec_nanos()]);
    attr(out, attributes);
}

/// Appends attributes.
pub(crate) fn attributes(out: &mut Vec<u8>, attributes: &Attr, lifetime: Duration) {
    u64s(out, &[lifetime.as_secs()]);
    u32s(out, &[lifetime.subsec_nanos(), 0]);
    attr(out, attributes);
}

/// Appends an open file.
pub(crate) fn opened(out: &mut Vec<u8>, handle: u64, flags: u32) {
    u64s(out, &[handle]);
    u32s(out, &[flags, 0]);
}

/// Appends a byte count: bytes written, or the space an extended attribute needs.
pub(crate) fn count(out: &mut Vec<u8>, bytes: u32) {
    u32s(out, &[bytes, 0]);
}

/// Appends a file offset.
pub(crate) fn offset(out: &mut Vec<u8>, offset: u64) {
    u64s(out, &[offset]);
}

/// Appends a conflicting lock, or `F_UNLCK`.
pub(crate) fn lock(out: &mut Vec<u8>, start: u64, end: u64, kind: u32, pid: u32) {
    u64s(out, &[start, end]);
    u32s(out, &[kind, pid]);
}

/// Free space and free inodes.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Space {
    pub block_bytes: u32,
    pub blocks: u64,
    pub free: u64,
    pub available: u64,
    pub files: u64,
    pub files_free: u64,
    pub name_bytes: u32,
}

/// Appends the space of a file system.
pub(crate) fn space(out: &mut Vec<u8>, s: &Space) {
    u64s(out, &[s.blocks, s.free, s.available, s.files, s.files_free]);
    u32s(out, &[s.block_bytes, s.name_bytes, s.block_bytes, 0, 0, 0, 0, 0, 0, 0]);
}

/// One name of a directory.
#[allow(missing_docs)]
pub(crate) struct Name<'a> {
    pub number: u64,
    /// Offset to continue reading after it.
    pub next: u64,
    pub name: &'a [u8],
    /// File type: the upper bits of a mode, shifted by 12.
    pub kind: u32,
}

/// Appends a name, if it fits into `room` bytes in all.
pub(crate) fn name(out: &mut Vec<u8>, room: usize, name: &Name<'_>) -> bool {
    let length = (24 + name.name.len()).next_multiple_of(8);
    if out.len() + length > room {
        return false;
    }
    let end = out.len() + length;
    u64s(out, &[name.number, name.next]);
    u32s(out, &[name.name.len() as u32, name.kind]);
    out.extend(name.name);
    out.resize(end, 0);
    true
}

/// Appends a name with its attributes, if it fits into `room` bytes in all. `None`: attributes unknown; the kernel will ask.
pub(crate) fn name_with_attributes(out: &mut Vec<u8>, room: usize, one: &Name<'_>, known: Option<(u64, &Attr, Lifetimes)>) -> bool {
    let length = (128 + 24 + one.name.len()).next_multiple_of(8);
    if out.len() + length > room {
        return false;
    }
    match known {
        Some((node, attributes, lifetimes)) => entry(out, node, attributes, lifetimes),
        None => out.resize(out.len() + 128, 0),
    }
    name(out, room, one)
}

/// Result of the negotiation.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreement {
    pub readahead_bytes: u32,
    pub flags: u64,
    pub background: u16,
    pub write_bytes: u32,
    pub pages: u16,
}

/// Appends the answer to the first request.
pub(crate) fn agreement(out: &mut Vec<u8>, a: &Agreement) {
    u32s(out, &[abi::KERNEL_VERSION, abi::KERNEL_MINOR_VERSION, a.readahead_bytes, a.flags as u32]);
    out.extend(a.background.to_ne_bytes());
    out.extend((a.background / 4 * 3).to_ne_bytes());
    u32s(out, &[a.write_bytes, 1]);
    out.extend(a.pages.to_ne_bytes());
    out.extend(0_u16.to_ne_bytes());
    u32s(out, &[(a.flags >> 32) as u32, 0, 0, 0, 0, 0, 0, 0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_kernels_structures() {
        let lifetimes = Lifetimes { entry: Duration::ZERO, attributes: Duration::ZERO };
        let length = |fill: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            fill(&mut out);
            out.len()
        };
        assert_eq!(length(&|o| entry(o, 1, &Attr::default(), lifetimes)), 128);
        assert_eq!(length(&|o| attributes(o, &Attr::default(), Duration::ZERO)), 104);
        assert_eq!(length(&|o| space(o, &Space::default())), 80);
        assert_eq!(length(&|o| lock(o, 0, 0, 0, 0)), 24);
        let agreed = Agreement { readahead_bytes: 0, flags: 0, background: 0, write_bytes: 0, pages: 0 };
        assert_eq!(length(&|o| agreement(o, &agreed)), 64);
    }

    #[test]
    fn names_stop_before_the_room_ends() {
        let mut out = Vec::new();
        let one = Name { number: 1, next: 1, name: b"abc", kind: 8 };
        assert!(name(&mut out, 64, &one) && name(&mut out, 64, &one) && !name(&mut out, 64, &one));
        assert_eq!(out.len(), 64);
        assert!(!name_with_attributes(&mut out, 200, &one, None));
        assert!(name_with_attributes(&mut out, 224, &one, None));
        assert_eq!(out.len(), 224);
    }

    #[test]
    fn times_before_1970_have_their_nanoseconds_counted_forward() {
        let mut out = Vec::new();
        attributes(&mut out, &Attr { modified_ns: -1, ..Attr::default() }, Duration::ZERO);
        let seconds = i64::from_ne_bytes(out[16 + 32..16 + 40].try_into().unwrap());
        let rest = u32::from_ne_bytes(out[16 + 52..16 + 56].try_into().unwrap());
        assert_eq!((seconds, rest), (-1, 999_999_999));
    }
}
