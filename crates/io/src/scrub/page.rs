//! Pages of a scrub: everything in a target's directory, read and verified.
//!
//! What is there is listed part by part (a part is the directory of all files whose number ends with one byte), so a page needs memory for
//! one part only. Verifying takes no lock unless something does not match; checksums that a crash left unverified are recomputed in steps,
//! like those recomputed in the background.

use crate::name::{self, Name, SUMS};
use crate::sums::Scanned;
use crate::target::Target;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use thalweg_wire::limits;
use thalweg_wire::protocol::io::{DatafileId, FileId, LotId};
use thalweg_wire::protocol::scrub::{ScrubCursor, ScrubPage, ScrubbedDatafile, SumsState};
use thalweg_wire::{Error, Result};

/// Bytes read at a time.
const PIECE: u64 = 1 << 20;
/// Datafiles of a page.
const DATAFILES: usize = 1024;
/// Time for a page: its client waits for it.
const PAGE: Duration = Duration::from_secs(2);
/// Ranges and strange names of a page; the rest is counted as one.
const RANGES: usize = 1024;

/// Which of a datafile's two files are there.
#[derive(Clone, Copy, Default)]
struct There {
    datafile: bool,
    sums: bool,
}

/// The names in a part.
#[derive(Default)]
struct Part {
    datafiles: BTreeMap<(FileId, u32), There>,
    strange: Vec<String>,
}

/// Returns the file and index of a datafile's name, if it is one.
fn parsed(name: &str) -> Option<(FileId, u32)> {
    let (file, index) = name.split_once('.')?;
    let (file, index) = (FileId(u64::from_str_radix(file, 16).ok()?), index.parse().ok()?);
    // Only what a server would call it: not `0007.+1`.
    (name == format!("{file}.{index}")).then_some((file, index))
}

impl Part {
    fn read(directory: &Path, part: u8) -> Result<Part> {
        let mut found = Part::default();
        let path = directory.join(format!("{part:02x}"));
        let entries = match std::fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(found),
            Err(e) => return Err(Error::system(path.display(), e)),
        };
        for entry in entries {
            let entry = entry.map_err(|e| Error::system(path.display(), e))?;
            let name = entry.file_name();
            let text = name.to_str().unwrap_or_default();
            let (base, is_sums) = text.strip_suffix(SUMS).map_or((text, false), |base| (base, true));
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            match parsed(base).filter(|(file, _)| file.0 as u8 == part && is_file) {
                Some(id) => {
                    let there = found.datafiles.entry(id).or_default();
                    there.sums |= is_sums;
                    there.datafile |= !is_sums;
                }
                None => found.strange.push(entry.path().display().to_string()),
            }
        }
        Ok(found)
    }
}

/// A page being made.
struct Page<'a> {
    target: &'a Target,
    page: ScrubPage,
    most_bytes: u64,
    begun: Instant,
    buffer: Vec<u8>,
}

/// Makes the page from a cursor on.
pub(super) fn page(target: &Target, from: &ScrubCursor, most_bytes: u64) -> Result<ScrubPage> {
    let mut making = Page::new(target, most_bytes);
    let mut lots: Vec<Option<LotId>> = name::lots_in(target.directory())?.into_iter().map(Some).collect();
    lots.push(None);
    lots.sort_unstable();
    for lot in lots.into_iter().filter(|lot| *lot >= from.lot) {
        let is_first = lot == from.lot;
        let first = if is_first { from.file as u8 } else { 0 };
        for part in first..=u8::MAX {
            let is_first = is_first && part == first;
            let begin = if is_first { *from } else { ScrubCursor { lot, file: u64::from(part), index: 0, offset: 0 } };
            if let Some(next) = making.part(lot, part, &begin)? {
                making.page.next = Some(next);
                return Ok(making.page);
            }
        }
    }
    Ok(making.page)
}

/// Makes the page of one datafile, from an offset on.
pub(super) fn datafile(target: &Target, id: DatafileId, offset: u64, most_bytes: u64) -> Result<ScrubPage> {
    let mut making = Page::new(target, most_bytes);
    let there = There { datafile: target.path(id).exists(), sums: sums_path(target, id).exists() };
    if there.datafile || there.sums {
        let left = making.one(id, there, offset);
        making.page.next = left.map(|offset| ScrubCursor { offset, ..ScrubCursor::of(id.lot, id.file, id.index) });
    }
    Ok(making.page)
}

fn sums_path(target: &Target, id: DatafileId) -> std::path::PathBuf {
    let name = Name::of_sums(id);
    target.path(id).with_file_name(name.as_c_str().to_string_lossy().rsplit('/').next().unwrap_or_default())
}

impl<'a> Page<'a> {
    fn new(target: &'a Target, most_bytes: u64) -> Page<'a> {
        let buffer = vec![0; PIECE as usize];
        Page { target, page: ScrubPage::default(), most_bytes: most_bytes.min(limits::SCRUB_PAGE), begun: Instant::now(), buffer }
    }

    fn is_full(&self) -> bool {
        self.page.read_bytes >= self.most_bytes || self.page.datafiles.len() >= DATAFILES || self.begun.elapsed() >= PAGE
    }

    /// Examines a part; returns where to go on if the page is full.
    fn part(&mut self, lot: Option<LotId>, part: u8, begin: &ScrubCursor) -> Result<Option<ScrubCursor>> {
        let found = Part::read(&self.target.parts(lot), part)?;
        if begin.file == u64::from(part) && begin.index == 0 && begin.offset == 0 {
            self.page.strange.extend(found.strange.into_iter().take(RANGES.saturating_sub(self.page.strange.len())));
        }
        for ((file, index), there) in found.datafiles.range((FileId(begin.file), begin.index)..) {
            let here = ScrubCursor::of(lot, *file, *index);
            if self.is_full() {
                return Ok(Some(ScrubCursor { offset: if here.order() == begin.order() { begin.offset } else { 0 }, ..here }));
            }
            let id = DatafileId { file: *file, index: *index, target: self.target.number(), lot };
            let offset = if here.order() == begin.order() { begin.offset } else { 0 };
            if let Some(offset) = self.one(id, *there, offset) {
                return Ok(Some(ScrubCursor { offset, ..here }));
            }
        }
        Ok(None)
    }

    /// Examines a datafile from an offset on; returns the offset to go on with if the page is full.
    fn one(&mut self, id: DatafileId, there: There, offset: u64) -> Option<u64> {
        let mut found = ScrubbedDatafile {
            id,
            path: self.target.path(id).display().to_string(),
            size_bytes: 0,
            allocated_bytes: 0,
            sums: SumsState::Alone,
            damaged: Vec::new(),
            recomputed: 0,
            problem: None,
            is_whole: true,
        };
        let left = match there.datafile {
            true => self.pieces(&mut found, offset).unwrap_or_else(|error| {
                found.problem = Some(error.message().to_owned());
                None
            }),
            false => None,
        };
        found.is_whole = left.is_none();
        self.page.datafiles.push(found);
        left
    }

    fn pieces(&mut self, found: &mut ScrubbedDatafile, mut offset: u64) -> Result<Option<u64>> {
        // Removed meanwhile: there is nothing to find.
        let Some(datafile) = self.target.briefly(found.id, false)? else {
            found.sums = SumsState::Verified;
            return Ok(None);
        };
        (found.size_bytes, found.allocated_bytes) = datafile.lengths()?;
        found.sums = SumsState::Verified;
        loop {
            let Scanned { next, read_bytes, damaged, differed, state, problem } = datafile.scan(&mut self.buffer, offset)?;
            self.page.read_bytes += read_bytes;
            found.recomputed += differed;
            if state != SumsState::Verified {
                found.sums = state;
            }
            for (from, to) in damaged {
                let is_full = found.damaged.len() >= RANGES;
                match found.damaged.last_mut() {
                    Some(last) if last.1 == from || is_full => last.1 = to,
                    _ => found.damaged.push((from, to)),
                }
            }
            found.problem = found.problem.take().or(problem);
            match next {
                None => return Ok(None),
                Some(next) if self.is_full() => return Ok(Some(next)),
                Some(next) => offset = next,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::protocol::io::TargetId;

    fn all(target: &Target, most_bytes: u64) -> (Vec<ScrubbedDatafile>, u64) {
        let (mut from, mut found, mut read_bytes) = (ScrubCursor::default(), Vec::new(), 0);
        loop {
            let page = page(target, &from, most_bytes).unwrap();
            found.extend(page.datafiles);
            read_bytes += page.read_bytes;
            let Some(next) = page.next else { return (found, read_bytes) };
            assert!((next.order(), next.offset) > (from.order(), from.offset), "{from:?} {next:?}");
            from = next;
        }
    }

    #[test]
    fn pages_of_any_size_have_every_datafile_once_with_what_is_wrong_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let target = Target::initialise(directory.path(), 7, TargetId(3)).unwrap();
        let id = |file, index| DatafileId { file: FileId(file), index, target: TargetId(3), lot: None };
        let sizes =
            [(id(0x107, 0), 3_000_000_u64), (id(0x207, 0), 100), (id(0x207, 9), 5000), (id(0x2ff, 0), 1 << 20), (id(0x300, 1), 50_000)];
        for (id, size) in sizes {
            let bytes: Vec<u8> = (0..size).map(|n| 1 + (n % 251) as u8).collect();
            target.created(id).unwrap().write(&bytes, 0).unwrap();
        }
        target.truncate(id(0x400, 0), 1 << 33).unwrap();
        for most_bytes in [1, 3 << 20, u64::MAX] {
            let (found, read_bytes) = all(&target, most_bytes);
            assert_eq!(read_bytes, sizes.iter().map(|(_, size)| size).sum::<u64>(), "holes are not read");
            let whole: Vec<_> = found.iter().filter(|found| found.is_whole).map(|found| (found.id, found.size_bytes)).collect();
            let mut expected = sizes.to_vec();
            expected.push((id(0x400, 0), 1 << 33));
            expected.sort_by_key(|(id, _)| ScrubCursor::of(None, id.file, id.index).order());
            assert_eq!(whole, expected);
            assert!(found.iter().all(|found| found.damaged.is_empty() && found.problem.is_none()), "{found:?}");
        }
        // A flipped byte, a byte in a hole, and one too many.
        use std::os::unix::fs::FileExt;
        let open = |id| std::fs::File::options().write(true).open(target.path(id)).unwrap();
        open(id(0x107, 0)).write_all_at(&[0], 2_500_000).unwrap();
        open(id(0x400, 0)).write_all_at(&[9], 1 << 32).unwrap();
        for _ in 0..2 {
            target.settle(Duration::ZERO);
        }
        open(id(0x207, 9)).write_all_at(&[9], 5000).unwrap();
        for most_bytes in [1, u64::MAX] {
            let (found, _) = all(&target, most_bytes);
            let wrong: Vec<_> =
                found.iter().filter(|found| !found.damaged.is_empty()).map(|found| (found.id, found.damaged.clone())).collect();
            let block = |at: u64| (at / 4096 * 4096, at / 4096 * 4096 + 4096);
            let cut = (4096, 5001);
            assert_eq!(wrong, [(id(0x400, 0), vec![block(1 << 32)]), (id(0x107, 0), vec![block(2_500_000)]), (id(0x207, 9), vec![cut])]);
            let problems: Vec<_> = found.iter().filter_map(|found| found.problem.as_deref()).collect();
            assert_eq!(problems, ["it has 5001 bytes, expected 5000"]);
        }
    }

    #[test]
    fn checksums_left_unverified_are_recomputed_on_the_way_and_believed_afterwards() {
        let directory = tempfile::tempdir().unwrap();
        let id = DatafileId { file: FileId(7), index: 0, target: TargetId(3), lot: None };
        let bytes = vec![5; 3_000_000];
        Target::initialise(directory.path(), 7, TargetId(3)).unwrap().created(id).unwrap().write(&bytes, 0).unwrap();
        let target = Target::open(directory.path(), 7, TargetId(3)).unwrap();
        for expected in [SumsState::Unverified, SumsState::Verified] {
            let (found, _) = all(&target, 1 << 20);
            let last = found.last().unwrap();
            assert!(last.is_whole && found.iter().all(|found| found.sums == expected && found.damaged.is_empty()), "{found:?}");
        }
        std::fs::OpenOptions::new().write(true).open(target.path(id)).unwrap().set_len(2_999_000).unwrap();
        assert!(!all(&target, 1 << 20).0.last().unwrap().damaged.is_empty(), "the last block has fewer bytes");
    }

    #[test]
    fn only_names_that_a_server_gives_are_datafiles() {
        assert_eq!(parsed("0000010000000007.3"), Some((FileId(0x0100_0000_0007), 3)));
        for name in ["0000010000000007.03", "10000000007.3", "0000010000000007.+3", "0000010000000007", "0000010000000007.3.crc", "x", ""] {
            assert_eq!(parsed(name), None, "{name}");
        }
    }
}
