//! The lost bytes of a file, as known to this client: those reported by the metadata service, and those lost here since.
//!
//! A write-behind that fails was acknowledged long before, so its bytes are lost. Their ranges are kept here until they are rewritten or
//! the file is truncated, and reported to the service ([`Unreported`]), so that every other reader gets an error instead of zeros. A
//! client that had the file open goes on reading what it wrote, as from a local file system's page cache, for which about [`KEPT_BYTES`]
//! of lost data are kept. (A database rolls back based on what it reads.)

use super::payload;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg_base::sync::Mutex;
use thalweg_layout::{FlowBuffer, Layout};
use thalweg_wire::protocol::metadata::{Attributes, Lost, LostRange};

/// Bound: lost bytes per file kept for clients that had it open.
const KEPT_BYTES: usize = 256 << 10;

/// Lost bytes of a file; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// Whether any are lost; checked on each read and write.
    some: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    lost: Lost,
    unreported: Unreported,
    /// Change counter of the file in the service's last answer.
    change: u64,
    kept: LostContent,
}

/// Losses and repairs of a file not yet reported to the metadata service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unreported {
    /// Ranges lost here.
    pub lost: Lost,
    /// Ranges rewritten here.
    pub mended: Lost,
}

impl Unreported {
    /// Whether there is nothing to report.
    pub fn is_empty(&self) -> bool {
        self.lost.is_empty() && self.mended.is_empty()
    }
}

/// Ignored in comparisons: two handles of one file are equal whatever they know of it.
impl PartialEq for Losses {
    fn eq(&self, _: &Losses) -> bool {
        true
    }
}

impl Eq for Losses {}

/// Content of lost ranges, by offset.
#[derive(Debug, Default)]
struct LostContent {
    parts: BTreeMap<u64, Vec<u8>>,
    bytes: usize,
}

impl LostContent {
    fn put(&mut self, offset: u64, bytes: &[u8]) {
        self.remove(&(offset..offset + bytes.len() as u64));
        let most = bytes.len().min(KEPT_BYTES - self.bytes);
        if most > 0 {
            self.bytes += most;
            self.parts.insert(offset, bytes[..most].to_vec());
        }
    }

    fn remove(&mut self, range: &Range<u64>) {
        let touched = self.parts.range(..range.end).filter(|(start, bytes)| *start + bytes.len() as u64 > range.start);
        for start in touched.map(|(start, _)| *start).collect::<Vec<_>>() {
            let Some(mut bytes) = self.parts.remove(&start) else { continue };
            self.bytes -= bytes.len();
            let end = start + bytes.len() as u64;
            if end > range.end {
                let after = bytes.split_off((range.end - start.min(range.end)) as usize);
                self.bytes += after.len();
                self.parts.insert(range.end, after);
            }
            if start < range.start {
                bytes.truncate((range.start - start) as usize);
                self.bytes += bytes.len();
                self.parts.insert(start, bytes);
            }
        }
    }

    /// Iterates over the parts within a range.
    fn within<'a>(&'a self, range: &'a Range<u64>) -> impl Iterator<Item = (u64, &'a [u8])> {
        self.parts.range(..range.end).filter_map(|(start, bytes)| {
            let (from, to) = (range.start.max(*start), range.end.min(start + bytes.len() as u64));
            (from < to).then(|| (from, &bytes[(from - start) as usize..(to - start) as usize]))
        })
    }
}

impl Losses {
    /// Starts with the losses in the service's attributes.
    pub(super) fn of(attributes: &Attributes) -> Losses {
        let losses = Losses::default();
        losses.heard(attributes);
        losses
    }

    /// Whether no bytes are lost.
    pub(super) fn is_empty(&self) -> bool {
        !self.some.load(Ordering::Acquire)
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let answer = work(&mut state);
        self.some.store(!state.lost.is_empty(), Ordering::Release);
        answer
    }

    /// Merges the losses in the service's attributes.
    pub(super) fn heard(&self, attributes: &Attributes) {
        self.with(|state| {
            if attributes.change < state.change {
                return;
            }
            state.change = attributes.change;
            state.lost = attributes.lost.as_deref().cloned().unwrap_or_default();
            let Unreported { lost, mended } = &state.unreported;
            state.lost.subtract(mended);
            state.lost.merge(lost);
        });
    }

    /// Marks `bytes` at `offset` as lost, and keeps them.
    pub(super) fn lose(&self, layout: &Layout, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        let ranges = ranges(layout, &(offset..end));
        self.with(|state| {
            for range in &ranges {
                state.lost.add(*range, end);
                state.unreported.lost.add(*range, end);
                state.unreported.mended.remove(range);
            }
            state.kept.put(offset, bytes);
        });
    }

    /// Marks a range as rewritten.
    pub(super) fn mend(&self, layout: &Layout, range: &Range<u64>) {
        if self.is_empty() {
            return;
        }
        let ranges = ranges(layout, range);
        self.with(|state| {
            let end = state.lost.end_bytes();
            for range in &ranges {
                if state.lost.overlaps(range) {
                    state.lost.remove(range);
                    state.unreported.lost.remove(range);
                    state.unreported.mended.add(*range, end);
                }
            }
            state.kept.remove(range);
        });
    }

    /// Clears all losses: the file was truncated.
    pub(super) fn accept(&self) {
        self.with(|state| {
            // Bumped so that an answer from before the truncation is ignored.
            *state = State { change: state.change + 1, ..State::default() };
        });
    }

    /// Returns what must be reported to the service.
    pub(super) fn unreported(&self) -> Unreported {
        self.state.lock().unreported.clone()
    }

    /// Records that `what` was reported, with the service's answer.
    pub(super) fn reported(&self, what: &Unreported, answer: Option<&Attributes>) {
        self.with(|state| {
            state.unreported.lost.subtract(&what.lost);
            state.unreported.mended.subtract(&what.mended);
        });
        if let Some(answer) = answer {
            self.heard(answer);
        }
    }

    /// Returns the file's minimum size, in bytes, including its lost ranges.
    pub(super) fn end_bytes(&self) -> u64 {
        if self.is_empty() { 0 } else { self.state.lock().lost.end_bytes() }
    }

    /// Whether bytes of this range are lost.
    pub(super) fn overlaps(&self, layout: &Layout, range: &Range<u64>) -> bool {
        if self.is_empty() {
            return false;
        }
        let ranges = ranges(layout, range);
        let state = self.state.lock();
        ranges.iter().any(|range| state.lost.overlaps(range))
    }

    /// Copies kept bytes into `buffer`, which begins at `offset`; returns whether they cover all its lost bytes.
    pub(super) fn fill(&self, layout: &Layout, buffer: &mut [u8], offset: u64) -> bool {
        let range = offset..offset + buffer.len() as u64;
        let state = self.state.lock();
        let (mut at, mut others) = (range.start, Vec::new());
        for (start, bytes) in state.kept.within(&range) {
            let from = (start - offset) as usize;
            buffer[from..from + bytes.len()].copy_from_slice(bytes);
            others.push(at..start);
            at = start + bytes.len() as u64;
        }
        others.push(at..range.end);
        !others.iter().flat_map(|other| ranges(layout, other)).any(|range| state.lost.overlaps(&range))
    }
}

/// Splits a range of the file by datafile.
fn ranges(layout: &Layout, range: &Range<u64>) -> Vec<LostRange> {
    let buffers = payload::buffers(layout, range.start, range.end.saturating_sub(range.start)).unwrap_or_default();
    let of = |buffer: &FlowBuffer| LostRange {
        index: buffer.datafile,
        start: buffer.physical_offset,
        end: buffer.physical_offset + buffer.length,
    };
    buffers.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_layout::Spec;

    fn striped() -> Layout {
        Layout::new(&Spec::new("simple_stripe").with("strip_size", "100"), Some(2), 2).unwrap()
    }

    #[test]
    fn lost_bytes_are_read_back_as_they_were_written_until_they_are_mended() {
        let (layout, losses) = (striped(), Losses::default());
        losses.lose(&layout, 50, &[7; 200]);
        assert_eq!(losses.end_bytes(), 250);
        let mut buffer = [0; 300];
        assert!(losses.fill(&layout, &mut buffer, 0));
        assert!(buffer[..50] == [0; 50] && buffer[50..250] == [7; 200] && buffer[250..] == [0; 50]);
        losses.mend(&layout, &(100..200));
        assert!(!losses.overlaps(&layout, &(100..200)) && losses.overlaps(&layout, &(99..100)) && losses.overlaps(&layout, &(200..201)));
        losses.mend(&layout, &(0..300));
        assert!(losses.is_empty() && losses.end_bytes() == 0);
    }

    #[test]
    fn what_is_not_kept_of_lost_bytes_cannot_be_read() {
        let (layout, losses) = (striped(), Losses::default());
        losses.lose(&layout, 0, &vec![1; KEPT_BYTES]);
        losses.lose(&layout, 1 << 20, &[2; 100]);
        assert!(losses.fill(&layout, &mut [0; 100], 0));
        assert!(!losses.fill(&layout, &mut [0; 10], (1 << 20) + 5), "past what is kept");
        assert!(losses.fill(&layout, &mut [0; 10], (1 << 20) + 100));
    }

    #[test]
    fn the_service_is_sent_each_change_until_it_has_answered() {
        let (layout, losses) = (striped(), Losses::default());
        losses.lose(&layout, 0, &[1; 300]);
        let first = losses.unreported();
        losses.mend(&layout, &(0..50));
        losses.reported(&first, None);
        let second = losses.unreported();
        assert!(second.lost.is_empty());
        assert_eq!(second.mended.ranges(), [LostRange { index: 0, start: 0, end: 50 }]);
        losses.reported(&second, None);
        assert!(losses.unreported().is_empty() && losses.overlaps(&layout, &(50..51)));
        losses.accept();
        assert!(losses.is_empty() && losses.unreported().is_empty());
    }
}
