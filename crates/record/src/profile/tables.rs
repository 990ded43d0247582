//! A file's unwind tables (`.eh_frame`), which say for each address how to find the caller's registers. Compilers
//! write them for exceptions, and distributions keep them in stripped files, so they exist where frame pointers do
//! not.

use crate::symbols::Segments;
use framehop::ExplicitModuleSectionInfo;
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, DW_EH_PE_udata8, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, Operation, Register, RegisterRule,
    UnwindContext, UnwindExpression, UnwindSection,
};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Maximum read of one file: more than any browser has.
const MOST_BYTES: u64 = 64 << 20;

#[cfg(target_arch = "x86_64")]
mod registers {
    use gimli::{Register, X86_64};
    pub(super) const STACK: Register = X86_64::RSP;
    pub(super) const FRAME: Register = X86_64::RBP;
    pub(super) const RETURN: Register = X86_64::RA;
    /// Offset of the return address from the caller's stack pointer.
    pub(super) const RETURN_AT: Option<i64> = Some(-8);
}

#[cfg(target_arch = "aarch64")]
mod registers {
    use gimli::{AArch64, Register};
    pub(super) const STACK: Register = AArch64::SP;
    pub(super) const FRAME: Register = AArch64::X29;
    pub(super) const RETURN: Register = AArch64::X30;
    pub(super) const RETURN_AT: Option<i64> = None;
}

/// Maximum frame size: larger offsets do not come from a compiler, and could overflow arithmetic.
const MOST_OFFSET: i64 = 1 << 40;

/// The tables' answer for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// The caller can be found, if the word at this offset from the frame pointer was copied.
    Caller { needs: Option<i64> },
    /// There is no caller: the stack begins here.
    Outermost,
    /// No entry, or one that framehop does not follow. (It would fall back to frame pointers and invent frames.)
    Nothing,
}

type Slice<'a> = EndianSlice<'a, LittleEndian>;

#[derive(Debug)]
struct Section {
    address: u64,
    bytes: Arc<[u8]>,
}

impl Section {
    fn read(file: &File, offset: u64, length: u64, address: u64) -> Option<Section> {
        let mut bytes = vec![0; usize::try_from(Some(length).filter(|length| *length <= MOST_BYTES)?).ok()?];
        file.read_exact_at(&mut bytes, offset).ok()?;
        Some(Section { address, bytes: bytes.into() })
    }

    fn range(&self) -> Range<u64> {
        self.address..self.address + self.bytes.len() as u64
    }
}

/// The tables of one file, in its own addresses.
#[derive(Debug)]
pub(super) struct Tables {
    segments: Segments,
    range: Range<u64>,
    index: Section,
    frames: Section,
}

impl Tables {
    /// Reads a file's tables; `None` if it has none.
    pub(super) fn of(file: &File) -> Option<Tables> {
        let (segments, header) = Segments::with_unwind_header(file)?;
        let range = segments.range()?;
        let (index, frames) = match header {
            Some(header) => {
                let index = Section::read(file, header.offset, header.file_bytes, header.address)?;
                let start = beginning(&index)?;
                let segment = segments.at(start)?;
                let into = start - segment.address;
                // Their end is not recorded here; the segment's end will do.
                let frames = Section::read(file, segment.offset.checked_add(into)?, segment.file_bytes - into, start)?;
                (index, frames)
            }
            None => {
                let section = Segments::section(file, b".eh_frame")?;
                let frames = Section::read(file, section.offset, section.file_bytes, section.address)?;
                (indexed(&frames)?, frames)
            }
        };
        Some(Tables { segments, range, index, frames })
    }

    /// Returns their size.
    pub(super) fn size_bytes(&self) -> u64 {
        (self.index.bytes.len() + self.frames.bytes.len()) as u64
    }

    /// Returns the range of the file's link-time addresses.
    pub(super) fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Returns the address of a file offset.
    pub(super) fn address(&self, offset: u64) -> Option<u64> {
        self.segments.address(offset).filter(|address| self.range.contains(address))
    }

    /// Returns them in framehop's form.
    pub(super) fn sections(&self) -> ExplicitModuleSectionInfo<Arc<[u8]>> {
        ExplicitModuleSectionInfo {
            base_svma: self.range.start,
            eh_frame_hdr_svma: Some(self.index.range()),
            eh_frame_hdr: Some(Arc::clone(&self.index.bytes)),
            eh_frame_svma: Some(self.frames.range()),
            eh_frame: Some(Arc::clone(&self.frames.bytes)),
            ..ExplicitModuleSectionInfo::default()
        }
    }

    /// Returns the tables' answer for an address.
    pub(super) fn says(&self, address: u64, context: &mut UnwindContext<usize>) -> Says {
        self.row(address, context).unwrap_or(Says::Nothing)
    }

    fn row(&self, address: u64, context: &mut UnwindContext<usize>) -> Option<Says> {
        let bases = BaseAddresses::default().set_eh_frame_hdr(self.index.address).set_eh_frame(self.frames.address);
        let index = EhFrameHdr::new(&self.index.bytes, LittleEndian).parse(&bases, 8).ok()?;
        let mut frames = EhFrame::new(&self.frames.bytes, LittleEndian);
        frames.set_address_size(8);
        let entry = index.table()?.lookup(address, &bases).ok()?.direct().ok()?;
        // A corrupt index may point before its tables, which gimli's own lookup does not expect.
        let offset = usize::try_from(entry.checked_sub(index.eh_frame_ptr().direct().ok()?)?).ok()?;
        let function = frames.fde_from_offset(&bases, offset.into(), EhFrame::cie_from_offset).ok()?;
        if !function.contains(address) {
            return None;
        }
        let encoding = function.cie().encoding();
        let row = function.unwind_info_for_address(&frames, &bases, context, address).ok()?;
        match row.register(registers::RETURN) {
            Some(RegisterRule::Undefined) => return Some(Says::Outermost),
            None if registers::RETURN_AT.is_some() => return Some(Says::Outermost),
            None | Some(RegisterRule::SameValue) => {}
            Some(RegisterRule::Offset(offset)) if is_sane(offset) => {}
            Some(_) => return None,
        }
        // The frame pointer's rule decides where its callers' frames are found.
        match row.register(registers::FRAME) {
            None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => {}
            Some(RegisterRule::Offset(offset)) if is_sane(offset) => {}
            Some(_) => return None,
        }
        match row.cfa() {
            CfaRule::RegisterAndOffset { offset, .. }
                if !is_sane(*offset) || offset.checked_add(registers::RETURN_AT.unwrap_or(0))? < 0 =>
            {
                None
            }
            CfaRule::RegisterAndOffset { register: registers::STACK, .. } => Some(Says::Caller { needs: None }),
            CfaRule::RegisterAndOffset { register: registers::FRAME, offset } => {
                Some(Says::Caller { needs: registers::RETURN_AT.map(|at| offset + at) })
            }
            CfaRule::RegisterAndOffset { .. } => None,
            CfaRule::Expression(expression) => is_followed(expression, &frames, encoding).then_some(Says::Caller { needs: None }),
        }
    }
}

/// Returns where the tables begin, from their index.
fn beginning(index: &Section) -> Option<u64> {
    let bases = BaseAddresses::default().set_eh_frame_hdr(index.address);
    let parsed = EhFrameHdr::new(&index.bytes, LittleEndian).parse(&bases, 8).ok()?;
    parsed.table()?;
    parsed.eh_frame_ptr().direct().ok()
}

/// Builds the index that static programs lack, in a linker's format, with absolute addresses.
fn indexed(frames: &Section) -> Option<Section> {
    let bases = BaseAddresses::default().set_eh_frame(frames.address);
    let mut tables = EhFrame::new(&frames.bytes, LittleEndian);
    tables.set_address_size(8);
    let mut entries = tables.entries(&bases);
    let mut functions = Vec::new();
    while let Ok(Some(entry)) = entries.next() {
        if let CieOrFde::Fde(function) = entry
            && let Ok(function) = function.parse(EhFrame::cie_from_offset)
        {
            functions.push((function.initial_address(), frames.address.checked_add(function.offset() as u64)?));
        }
    }
    functions.sort_unstable();
    let mut bytes = vec![1];
    bytes.extend([DW_EH_PE_udata8.0; 3]);
    let words = [frames.address, functions.len() as u64].into_iter().chain(functions.into_iter().flat_map(|(start, at)| [start, at]));
    words.for_each(|word| bytes.extend(word.to_le_bytes()));
    // Nothing in it is relative to its own position.
    Some(Section { address: 0, bytes: bytes.into() })
}

fn is_sane(offset: i64) -> bool {
    (-MOST_OFFSET..=MOST_OFFSET).contains(&offset)
}

/// Whether an expression uses only known registers and arithmetic, like that of the linker's stubs. Expressions that
/// read memory are not followed.
fn is_followed(expression: &UnwindExpression<usize>, frames: &EhFrame<Slice<'_>>, encoding: gimli::Encoding) -> bool {
    let is_known = |register: Register| [registers::STACK, registers::FRAME, registers::RETURN].contains(&register);
    let Ok(expression) = expression.get(frames) else { return false };
    let mut operations = expression.operations(encoding);
    loop {
        match operations.next() {
            Ok(None) => return true,
            Ok(Some(Operation::RegisterOffset { register, .. })) if is_known(register) => {}
            Ok(Some(
                Operation::UnsignedConstant { .. }
                | Operation::SignedConstant { .. }
                | Operation::PlusConstant { .. }
                | Operation::And
                | Operation::Or
                | Operation::Plus
                | Operation::Minus
                | Operation::Mul
                | Operation::Shl
                | Operation::Shr
                | Operation::Eq
                | Operation::Ne
                | Operation::Ge
                | Operation::Gt
                | Operation::Le
                | Operation::Lt,
            )) => {}
            _ => return false,
        }
    }
}
