//! Unwinding, over synthetic files and memory; no process is involved.

use super::copied::Copied;
use super::modules::Modules;
use super::stacks::Frame;
use super::tables::Tables;
use super::unwind::{End, Unwinder, Walk};
use proptest::prelude::*;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Register numbers in the tables: the stack pointer, the frame pointer, the return address, and one that is not
/// followed.
#[cfg(target_arch = "x86_64")]
const REGISTERS: (u8, u8, u8, u8) = (7, 6, 16, 3);
#[cfg(target_arch = "aarch64")]
const REGISTERS: (u8, u8, u8, u8) = (31, 29, 30, 19);
const SP: u8 = REGISTERS.0;
const FP: u8 = REGISTERS.1;
const RA: u8 = REGISTERS.2;
const OTHER: u8 = REGISTERS.3;

/// The file's link address, its address in a process, and its parts.
const LINKED: u64 = 0x40_0000;
const MAPPED: u64 = 0x5555_0000_0000;
const INDEX_AT: usize = 0x200;
const TABLES_AT: usize = 0x300;
const STACK_AT: u64 = 0x7fff_0000;

/// The functions, 256 bytes each, with their unwind operations (`DW_CFA_*`).
const INNER: u64 = 0x1000;
const MIDDLE: u64 = 0x1100;
const OUTER: u64 = 0x1200;
const UNTABLED: u64 = 0x1300;
const STRANGE: u64 = 0x1400;
const REALIGNED: u64 = 0x1500;
const END: usize = 0x2000;

fn functions() -> Vec<(u64, Vec<u8>)> {
    let (cfa, cfa_offset, undefined, expression, offset) = (0x0c, 0x0e, 0x07, 0x0f, 0x80);
    vec![
        (INNER, vec![cfa_offset, 32, offset | RA, 1]),
        (MIDDLE, vec![cfa, FP, 16, offset | FP, 2, offset | RA, 1]),
        (OUTER, vec![undefined, RA]),
        (STRANGE, vec![cfa, OTHER, 16, offset | RA, 1]),
        // The frame pointer points to the saved stack pointer of the caller.
        (REALIGNED, vec![expression, 3, 0x70 + FP, 0, 0x06, offset | RA, 1]),
    ]
}

/// Makes a table entry: its length, its words, its operations.
fn entry(body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    while !body.len().is_multiple_of(4) {
        body.push(0);
    }
    [&(body.len() as u32).to_le_bytes()[..], &body].concat()
}

/// Makes an ELF file of one segment with these functions.
fn file(functions: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let relative = |to: u64, from: usize| (to.wrapping_sub(from as u64) as u32).to_le_bytes();
    let common = [&[0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, RA, 1, 0x1b, 0x0c, SP, 8][..], if RA == 16 { &[0x90, 1] } else { &[] }].concat();
    let mut tables = entry(&common);
    let mut index = vec![1, 0x1b, 0x03, 0x3b];
    index.extend(relative(TABLES_AT as u64, INDEX_AT + 4));
    index.extend((functions.len() as u32).to_le_bytes());
    for (start, operations) in functions {
        let at = TABLES_AT + tables.len();
        index.extend(relative(*start, INDEX_AT));
        index.extend(relative(at as u64, INDEX_AT));
        let common_back = (at + 4 - TABLES_AT) as u32;
        tables
            .extend(entry(&[&common_back.to_le_bytes()[..], &relative(*start, at + 8), &256_u32.to_le_bytes(), &[0], operations].concat()));
    }
    tables.extend([0; 4]);
    let words = |numbers: &[u64]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
    let header = |kind: u32, at: usize, size: usize| {
        let sizes = [at as u64, LINKED + at as u64, 0, size as u64, size as u64, 0x1000];
        [&kind.to_le_bytes()[..], &5_u32.to_le_bytes(), &words(&sizes)].concat()
    };
    let mut bytes = vec![0; END];
    bytes[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
    bytes[32..40].copy_from_slice(&64_u64.to_le_bytes());
    bytes[54..58].copy_from_slice(&[56, 0, 2, 0]);
    let headers = [header(1, 0, END), header(0x6474_e550, INDEX_AT, index.len())].concat();
    for (at, part) in [(64, headers), (INDEX_AT, index), (TABLES_AT, tables)] {
        bytes[at..at + part.len()].copy_from_slice(&part);
    }
    bytes
}

fn written(directory: &Path, bytes: &[u8]) -> PathBuf {
    let path = directory.join("program");
    std::fs::write(&path, bytes).expect("written");
    path
}

/// Returns the file offsets of a stack's frames, and how it ended.
fn unwound(path: &Path, stack_bytes: u32, copied: Copied<'_>) -> (Vec<u64>, End) {
    let (mut modules, mut unwinder) = (Modules::default(), Unwinder::new(stack_bytes));
    let id = modules.number(path.to_str().expect("text"), None).expect("a number");
    let mut walk = Walk::new(copied);
    let (mut frames, mut address) = (Vec::new(), copied.ip);
    loop {
        let offset = address.wrapping_sub(MAPPED);
        frames.push(offset);
        match unwinder.caller(Frame::File(id, offset), &modules, &mut walk) {
            Ok(caller) => address = caller,
            Err(end) => return (frames, end),
        }
    }
}

/// Makes a stack of three functions: the innermost has 24 bytes, the middle one a frame pointer.
fn words(into_middle: u64, into_outer: u64) -> Vec<u8> {
    [0, 0, 0, MAPPED + into_middle, 0, 0, STACK_AT + 256, MAPPED + into_outer, 0].map(u64::to_ne_bytes).concat()
}

fn copied(ip: u64, stack: &[u8]) -> Copied<'_> {
    Copied { ip: MAPPED + ip, sp: STACK_AT, fp: STACK_AT + 48, lr: 0, stack }
}

const ENOUGH: u32 = 4_096;

#[test]
fn a_stack_is_followed_to_where_it_began() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = written(directory.path(), &file(&functions()));
    let stack = words(MIDDLE + 0x50, OUTER + 0x50);
    assert_eq!(unwound(&path, ENOUGH, copied(INNER + 0x10, &stack)), (vec![INNER + 0x10, MIDDLE + 0x50, OUTER + 0x50], End::Whole));
    // A call at the very end of its function returns to the start of the next.
    let stack = words(MIDDLE + 0x100, OUTER + 0x100);
    assert_eq!(unwound(&path, ENOUGH, copied(INNER, &stack)), (vec![INNER, MIDDLE + 0x100, OUTER + 0x100], End::Whole));
}

#[test]
fn a_stack_that_is_longer_than_its_copy_says_so_and_one_that_ends_in_nothing_is_broken() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = written(directory.path(), &file(&functions()));
    let stack = words(MIDDLE + 0x50, OUTER + 0x50);
    let frames = vec![INNER + 0x10, MIDDLE + 0x50];
    assert_eq!(unwound(&path, 40, copied(INNER + 0x10, &stack[..40])), (frames.clone(), End::Longer));
    assert_eq!(unwound(&path, ENOUGH, copied(INNER + 0x10, &stack[..40])), (frames, End::Broken));
}

#[test]
fn no_frame_is_made_up_where_the_tables_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = written(directory.path(), &file(&functions()));
    // The frame pointer continues in each of these.
    let id = Modules::default().number("x", None).expect("a number");
    for at in [UNTABLED, STRANGE, REALIGNED] {
        let stack = words(at + 0x50, OUTER + 0x50);
        let end = End::Untabled(Frame::File(id, at + 0x50));
        assert_eq!(unwound(&path, ENOUGH, copied(INNER + 0x10, &stack)), (vec![INNER + 0x10, at + 0x50], end), "{at:#x}");
    }
    let stack = words(MIDDLE + 0x50, OUTER + 0x50);
    let path = written(directory.path(), &file(&[]));
    let end = End::Untabled(Frame::File(id, INNER + 0x10));
    assert_eq!(unwound(&path, ENOUGH, copied(INNER + 0x10, &stack)), (vec![INNER + 0x10], end));
    let path = directory.path().join("none");
    assert_eq!(unwound(&path, ENOUGH, copied(INNER + 0x10, &stack)), (vec![INNER + 0x10], end));
}

#[test]
fn this_program_and_the_vdso_have_tables() {
    let own = File::open("/proc/self/exe").and_then(|file| Ok((Tables::of(&file), file.metadata()?.len())));
    let (own, size) = own.expect("a file");
    assert!((1..size).contains(&own.expect("tables").size_bytes()));
    let Some((vdso, _)) = super::name::vdso() else { return println!("SKIPPED: no vDSO here") };
    assert!(Tables::of(&vdso).is_some());
    assert!(Tables::of(&File::open("/proc/self/maps").expect("a file")).is_none());
}

proptest! {
    #[test]
    fn no_stack_and_no_table_brings_it_down(
        garbage in proptest::collection::vec(any::<u64>(), 0..64), ip in INNER..END as u64, registers in any::<[u64; 3]>(), is_near in any::<bool>(),
        spoilt in proptest::collection::vec((INDEX_AT..TABLES_AT + 0x100, any::<u8>()), 0..8), operations in proptest::collection::vec(any::<u8>(), 0..12),
    ) {
        let directory = tempfile::tempdir().expect("a directory");
        let mut functions = functions();
        functions[0].1 = operations;
        let mut bytes = file(&functions);
        spoilt.iter().for_each(|(at, byte)| bytes[*at] = *byte);
        let path = written(directory.path(), &bytes);
        let stack: Vec<u8> = garbage.iter().map(|word| if is_near { STACK_AT + word % 512 } else { *word }).flat_map(u64::to_ne_bytes).collect();
        let [sp, fp, lr] = registers;
        let near = if is_near { [STACK_AT, STACK_AT + fp % 512, MAPPED + lr % END as u64] } else { [sp, fp, lr] };
        let copied = Copied { ip: MAPPED + ip, sp: near[0], fp: near[1], lr: near[2], stack: &stack };
        let (frames, _) = unwound(&path, ENOUGH, copied);
        prop_assert!(frames.len() <= 512);
    }
}
