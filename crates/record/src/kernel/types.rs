//! The kernel's types (BTF), as far as loading programs needs them: names and members.
//!
//! libbpf searches all types once for each structure that the programs read, and once for each attach point: 50 ms,
//! noticeable for a short command. Here they are parsed once, and libbpf gets only those that the programs can refer
//! to ([`Types::reduced_to`]). Rejected: keeping relocated programs from run to run, which would have to be trusted.

use std::collections::HashSet;
use std::ffi::CStr;
use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::ops::{Deref, Range};

/// Path of the kernel's types.
pub(crate) const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Upper limit on the size of any kernel's types.
const MOST_BYTES: u64 = 256 << 20;

const HEADER: usize = 24;
const MAGIC: u16 = 0xeb9f;
/// Size of the common part of a type: name, kind with a count, and size or referenced type.
const TYPE: usize = 12;

/// Kinds of types, numbered as in BTF.
pub(crate) mod kind {
    pub(crate) const INT: u32 = 1;
    pub(crate) const POINTER: u32 = 2;
    pub(crate) const ARRAY: u32 = 3;
    pub(crate) const STRUCT: u32 = 4;
    pub(crate) const UNION: u32 = 5;
    pub(crate) const ENUM: u32 = 6;
    pub(crate) const TYPEDEF: u32 = 8;
    pub(crate) const VOLATILE: u32 = 9;
    pub(crate) const CONST: u32 = 10;
    pub(crate) const RESTRICT: u32 = 11;
    pub(crate) const FUNCTION: u32 = 12;
    pub(crate) const PROTOTYPE: u32 = 13;
    pub(crate) const VARIABLE: u32 = 14;
    pub(crate) const SECTION: u32 = 15;
    pub(crate) const DECLARATION_TAG: u32 = 17;
    pub(crate) const TYPE_TAG: u32 = 18;
    pub(crate) const ENUM64: u32 = 19;
}

/// Types, numbered from 1; 0 is `void`.
pub(crate) struct Types<B> {
    bytes: B,
    strings: Range<usize>,
    /// Start of each type.
    places: Vec<u32>,
}

impl<B> std::fmt::Debug for Types<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Types").field("count", &self.places.len()).finish_non_exhaustive()
    }
}

/// One type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Type<'a> {
    pub(crate) kind: u32,
    name: u32,
    /// All of its bytes.
    bytes: &'a [u8],
}

/// A file that the kernel keeps in memory: mapped if possible (since Linux 6.16), otherwise read.
#[derive(Debug)]
pub(crate) enum BtfFile {
    Mapped { at: *const u8, length: usize },
    Read(Vec<u8>),
}

// SAFETY: the mapping is read-only and private, and only this value unmaps it.
unsafe impl Send for BtfFile {}
// SAFETY: as above; nothing changes it.
unsafe impl Sync for BtfFile {}

impl BtfFile {
    fn open(path: &str) -> std::io::Result<BtfFile> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let size = usize::try_from(length).ok().filter(|_| length <= MOST_BYTES && length > 0);
        let size = size.ok_or_else(|| Error::new(ErrorKind::InvalidData, "not the types of a kernel"))?;
        // SAFETY: a new private mapping, not yet referenced elsewhere.
        if let Ok(at) = unsafe { mmap(std::ptr::null_mut(), size, ProtFlags::READ, MapFlags::PRIVATE, &file, 0) } {
            return Ok(BtfFile::Mapped { at: at.cast_const().cast(), length: size });
        }
        let mut bytes = Vec::with_capacity(size);
        file.take(MOST_BYTES).read_to_end(&mut bytes)?;
        Ok(BtfFile::Read(bytes))
    }
}

impl Deref for BtfFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            // SAFETY: it is mapped for so long as this lives; what the kernel keeps there neither changes nor shrinks.
            BtfFile::Mapped { at, length } => unsafe { std::slice::from_raw_parts(*at, *length) },
            BtfFile::Read(bytes) => bytes,
        }
    }
}

impl Drop for BtfFile {
    fn drop(&mut self) {
        if let BtfFile::Mapped { at, length } = self {
            // SAFETY: this is the mapping that was made, and no slice of it outlives it.
            let _ = unsafe { rustix::mm::munmap(at.cast_mut().cast(), *length) };
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_ne_bytes)
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&value.to_ne_bytes());
    }
}

/// Returns the size of one member of a type of this kind; `None` if it has no members.
fn part(kind: u32) -> Option<usize> {
    match kind {
        kind::STRUCT | kind::UNION | kind::SECTION | kind::ENUM64 => Some(12),
        kind::ENUM | kind::PROTOTYPE => Some(8),
        _ => None,
    }
}

/// Returns a type's size, if the kind is known.
fn length(kind: u32, count: usize) -> Option<usize> {
    let rest = match kind {
        kind::INT | kind::VARIABLE | kind::DECLARATION_TAG => 4,
        kind::ARRAY => 12,
        kind::INT..=kind::ENUM64 => part(kind).map_or(0, |part| part * count),
        _ => return None,
    };
    Some(TYPE + rest)
}

/// Returns a name without its flavour suffix: `page___old` means `page`.
fn essential(name: &[u8]) -> &[u8] {
    let is_separator = |at: &usize| name[*at] != b'_' && &name[at + 1..at + 4] == b"___" && name[at + 4] != b'_';
    (0..name.len().saturating_sub(4)).rev().find(is_separator).map_or(name, |at| &name[..=at])
}

impl Types<BtfFile> {
    /// Reads the running kernel's types.
    pub(crate) fn of_kernel() -> std::io::Result<Types<BtfFile>> {
        Types::parse(BtfFile::open(BTF)?).ok_or_else(|| Error::new(ErrorKind::InvalidData, "not the types of a kernel"))
    }
}

impl<B: Deref<Target = [u8]>> Types<B> {
    /// Parses types; `None` if they are invalid or of an unknown kind.
    pub(crate) fn parse(bytes: B) -> Option<Types<B>> {
        if bytes.get(..2)? != MAGIC.to_ne_bytes() {
            return None;
        }
        let field = |at| word(&bytes, at).and_then(|number| usize::try_from(number).ok());
        let header = field(4)?;
        let first = header.checked_add(field(8)?)?;
        let end = first.checked_add(field(12)?)?;
        let strings = header.checked_add(field(16)?)?;
        let strings = strings..strings.checked_add(field(20)?)?;
        if end.max(strings.end) > bytes.len() || bytes.get(strings.clone())?.last() != Some(&0) {
            return None;
        }
        let (mut places, mut at) = (Vec::with_capacity((end - first) / 24), first);
        while at < end {
            places.push(u32::try_from(at).ok()?);
            let info = word(&bytes, at + 4)?;
            at += length(info >> 24 & 0x1f, (info & 0xffff) as usize)?;
        }
        (at == end).then_some(Types { bytes, strings, places })
    }

    /// Returns the encoded bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Iterates over all types, with their numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u32, Type<'_>)> {
        (1..).zip(&self.places).filter_map(|(number, _)| Some((number, self.get(number)?)))
    }

    fn get(&self, number: u32) -> Option<Type<'_>> {
        let at = *self.places.get(usize::try_from(number.checked_sub(1)?).ok()?)? as usize;
        let info = word(&self.bytes, at + 4)?;
        let kind = info >> 24 & 0x1f;
        let bytes = self.bytes.get(at..at + length(kind, (info & 0xffff) as usize)?)?;
        Some(Type { kind, name: word(bytes, 0)?, bytes })
    }

    /// Returns a type's name; empty if it has none.
    pub(crate) fn name(&self, of: Type<'_>) -> &[u8] {
        self.text(of.name)
    }

    fn text(&self, at: u32) -> &[u8] {
        let strings = &self.bytes[self.strings.clone()];
        strings.get(at as usize..).and_then(|text| CStr::from_bytes_until_nul(text).ok()).map_or(&[], CStr::to_bytes)
    }

    /// Whether a type has this name.
    pub(crate) fn is_named(&self, of: Type<'_>, name: &str) -> bool {
        let text = self.bytes[self.strings.clone()].get(of.name as usize..);
        text.and_then(|text| text.strip_prefix(name.as_bytes())).is_some_and(|rest| rest.first() == Some(&0))
    }

    /// Returns the names of structures and the like, by which programs refer to types of another set.
    pub(crate) fn names(&self) -> HashSet<&[u8]> {
        self.all().filter(|(_, of)| of.can_be_meant()).map(|(_, of)| essential(self.name(of))).filter(|name| !name.is_empty()).collect()
    }

    /// Returns the types reachable by programs that refer to these names. A pointer's size does not depend on its
    /// target, so targets are left out. `None` if a structure contains a kind that cannot be embedded.
    pub(crate) fn reduced_to(&self, names: &HashSet<&[u8]>) -> Option<Vec<u8>> {
        let mut reduced = Reduced { order: Vec::new(), numbers: vec![0; self.places.len() + 1] };
        let meant = |of: &Type<'_>| of.can_be_meant() && names.contains(essential(self.name(*of)));
        self.all().filter(|(_, of)| meant(of)).for_each(|(number, _)| reduced.add(number));
        let mut next = 0;
        while let Some(number) = reduced.order.get(next) {
            self.get(*number)?.holds()?.into_iter().filter(|held| *held != 0).for_each(|held| reduced.add(held));
            next += 1;
        }
        let (mut types, mut strings) = (Vec::new(), vec![0]);
        for number in &reduced.order {
            self.get(*number)?.write(&mut types, &reduced.numbers, |name| {
                let at = u32::try_from(strings.len()).unwrap_or(0);
                strings.extend_from_slice(self.text(name));
                strings.push(0);
                at
            });
        }
        let [types_length, strings_length] = [types.len(), strings.len()].map(|length| u32::try_from(length).unwrap_or(0));
        let mut all = MAGIC.to_ne_bytes().to_vec();
        all.extend([1, 0]);
        [HEADER as u32, 0, types_length, types_length, strings_length].iter().for_each(|word| all.extend(word.to_ne_bytes()));
        all.append(&mut types);
        all.append(&mut strings);
        Some(all)
    }
}

/// The kept types in their new order, and the new numbers by old ones.
struct Reduced {
    order: Vec<u32>,
    numbers: Vec<u32>,
}

impl Reduced {
    fn add(&mut self, number: u32) {
        if let Some(new) = self.numbers.get_mut(number as usize).filter(|new| **new == 0) {
            self.order.push(number);
            *new = u32::try_from(self.order.len()).unwrap_or(0);
        }
    }
}

impl Type<'_> {
    /// Whether a program's own declaration can refer to it.
    fn can_be_meant(&self) -> bool {
        matches!(self.kind, kind::STRUCT | kind::UNION | kind::ENUM | kind::ENUM64 | kind::TYPEDEF)
    }

    /// Returns the offsets of other types' numbers in it.
    fn numbers(&self) -> Vec<usize> {
        match self.kind {
            kind::STRUCT | kind::UNION => (TYPE..self.bytes.len()).step_by(12).map(|member| member + 4).collect(),
            kind::ARRAY => vec![TYPE, TYPE + 4],
            kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => vec![8],
            _ => Vec::new(),
        }
    }

    /// Returns the types embedded in it; `None` for a kind that a structure cannot contain.
    fn holds(&self) -> Option<Vec<u32>> {
        let is_data = !matches!(self.kind, kind::FUNCTION | kind::PROTOTYPE | kind::VARIABLE | kind::SECTION | kind::DECLARATION_TAG);
        is_data.then(|| self.numbers().into_iter().filter_map(|at| word(self.bytes, at)).collect())
    }

    /// Writes it with new type numbers and name offsets.
    fn write(&self, to: &mut Vec<u8>, new: &[u32], mut name: impl FnMut(u32) -> u32) {
        let from = to.len();
        to.extend_from_slice(self.bytes);
        let own = &mut to[from..];
        if self.kind == kind::POINTER {
            put(own, 8, 0);
        }
        for at in self.numbers() {
            let held = word(self.bytes, at).and_then(|number| new.get(number as usize));
            put(own, at, held.copied().unwrap_or(0));
        }
        let parts = part(self.kind)
            .filter(|_| self.kind != kind::PROTOTYPE)
            .map_or(Vec::new(), |part| (TYPE..self.bytes.len()).step_by(part).collect());
        for at in std::iter::once(0).chain(parts) {
            match word(self.bytes, at) {
                Some(old) if old != 0 => put(own, at, name(old)),
                _ => {}
            }
        }
    }
}

/// Reads the types in a program's object file.
pub(crate) fn of_object(object: &[u8]) -> Option<Types<&[u8]>> {
    let number = |at: usize, length: usize| {
        let bytes = object.get(at..at.checked_add(length)?)?;
        usize::try_from(bytes.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))).ok()
    };
    let (table, size, count, of_names) = (number(40, 8)?, number(58, 2)?, number(60, 2)?, number(62, 2)?);
    let section = |index: usize| {
        let at = table.checked_add(size.checked_mul(index)?)?;
        let (from, length) = (number(at + 24, 8)?, number(at + 32, 8)?);
        Some((number(at, 4)?, object.get(from..from.checked_add(length)?)?))
    };
    let (_, names) = section(of_names)?;
    let is_types = |(name, _): &(usize, &[u8])| names.get(*name..).is_some_and(|name| name.starts_with(b".BTF\0"));
    Types::parse((0..count).filter_map(section).find(is_types)?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flavour_of_a_structure_has_its_name() {
        let names = ["page", "page___old", "a___b___c", "___x", "x___", "x____y"].map(|name| essential(name.as_bytes()));
        assert_eq!(names, ["page", "page", "a___b", "___x", "x___", "x____y"].map(str::as_bytes));
    }

    #[test]
    fn what_is_no_types_is_refused() {
        assert!(Types::parse(&b""[..]).is_none());
        assert!(Types::parse(&[0; 64][..]).is_none());
        let mut header = [0; HEADER];
        header[..2].copy_from_slice(&MAGIC.to_ne_bytes());
        put(&mut header, 4, HEADER as u32);
        put(&mut header, 20, u32::MAX);
        assert!(Types::parse(&header[..]).is_none(), "bounded");
    }

    /// A structure's size, and its members' names and offsets.
    type Shape = (u32, Vec<(Vec<u8>, u32)>);

    /// Returns the shapes of all structures of this name.
    fn shapes<B: Deref<Target = [u8]>>(types: &Types<B>, name: &str) -> Vec<Shape> {
        let structures = types.all().filter(|(_, of)| of.kind == kind::STRUCT && types.is_named(*of, name));
        let member = |of: Type<'_>, at: usize| (types.text(word(of.bytes, at).unwrap()).to_vec(), word(of.bytes, at + 8).unwrap());
        structures
            .map(|(_, of)| (word(of.bytes, 8).unwrap(), (TYPE..of.bytes.len()).step_by(12).map(|at| member(of, at)).collect()))
            .collect()
    }

    #[test]
    fn reduced_types_have_what_is_meant_as_the_kernel_has_it_and_little_else() {
        let Ok(kernel) = Types::of_kernel() else { return println!("SKIPPED: this kernel has no types") };
        let names = HashSet::from(["task_struct", "file"].map(str::as_bytes));
        let bytes = kernel.reduced_to(&names).expect("reduced");
        let reduced = Types::parse(&bytes[..]).expect("parsed");
        assert!(reduced.places.len() * 20 < kernel.places.len(), "{reduced:?} of {kernel:?}");
        for name in ["task_struct", "file", "sched_entity", "path"] {
            assert!(!shapes(&kernel, name).is_empty());
            assert_eq!(shapes(&reduced, name), shapes(&kernel, name), "{name}");
        }
        assert!(shapes(&reduced, "request").is_empty(), "what is only pointed to is left out");
        for (_, of) in reduced.all() {
            assert!(of.holds().expect("data").iter().all(|held| *held as usize <= reduced.places.len()));
        }
    }
}
