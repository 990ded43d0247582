//! The sizes of a file's datafiles according to the metadata service.

use thalweg_base::sync::Mutex;
use thalweg_layout::{Distribution, Layout};
use thalweg_wire::protocol::io::DatafileSize;
use thalweg_wire::protocol::metadata::{Attributes, Lengths, Settled};

/// The service's last answer about a file, with the file's change counter then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LastKnown {
    pub settled: Settled,
    pub change: u64,
}

/// The expected sizes of a file's datafiles.
#[derive(Debug, Default)]
pub(super) struct Expected(Mutex<Option<LastKnown>>);

/// Ignored in comparisons: two handles of one file are equal whatever they know of it.
impl PartialEq for Expected {
    fn eq(&self, _: &Expected) -> bool {
        true
    }
}

impl Eq for Expected {}

/// A datafile whose size is not the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SizeMismatch {
    pub index: u32,
    pub is_bytes: u64,
    pub expected_bytes: u64,
}

impl Expected {
    pub(super) fn of(attributes: &Attributes) -> Expected {
        let settled = attributes.settled.clone();
        Expected(Mutex::new(settled.map(|settled| LastKnown { settled, change: attributes.change })))
    }

    /// Returns the last answer.
    pub(super) fn last_known(&self) -> Option<LastKnown> {
        self.0.lock().clone()
    }

    /// Records an answer.
    pub(super) fn set(&self, known: &Option<LastKnown>) {
        self.0.lock().clone_from(known);
    }

    /// Whether a datafile that ends at `end_bytes` may be complete.
    pub(super) fn allows_end(&self, layout: &Layout, index: u32, end_bytes: u64) -> bool {
        self.0.lock().as_ref().is_none_or(|known| least(layout, &known.settled, index) <= end_bytes)
    }
}

/// Returns the minimum size of a datafile, in bytes.
fn least(layout: &Layout, settled: &Settled, index: u32) -> u64 {
    let as_laid_out = || layout.datafile_size(index, settled.size_bytes);
    match &settled.lengths {
        Lengths::Whole => as_laid_out(),
        Lengths::AtLeast(lengths) => lengths.get(index as usize).copied().unwrap_or(0),
        Lengths::Unknown => {
            let last = settled.size_bytes.checked_sub(1);
            let has_last = last.is_some_and(|last| as_laid_out() > layout.logical_to_physical(index, last));
            if has_last { as_laid_out() } else { 0 }
        }
    }
}

/// Whether the sizes of a file's datafiles are those that are expected.
pub(crate) fn is_as_expected(layout: &Layout, settled: &Settled, sizes: &[DatafileSize]) -> bool {
    size_mismatch(layout, settled, sizes).is_none()
}

/// Returns the first datafile whose size contradicts what was settled.
pub(super) fn size_mismatch(layout: &Layout, settled: &Settled, sizes: &[DatafileSize]) -> Option<SizeMismatch> {
    (0..).zip(sizes).find_map(|(index, size)| {
        let is_bytes = size.size_bytes;
        let least_bytes = least(layout, settled, index);
        if is_bytes < least_bytes {
            return Some(SizeMismatch { index, is_bytes, expected_bytes: least_bytes });
        }
        let most_bytes = layout.datafile_size(index, settled.size_bytes);
        (settled.is_exact && is_bytes > most_bytes).then_some(SizeMismatch { index, is_bytes, expected_bytes: most_bytes })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_layout::Spec;

    fn striped() -> Layout {
        Layout::new(&Spec::new("simple_stripe").with("strip_size", "100"), Some(3), 3).unwrap()
    }

    fn sizes(each: [u64; 3]) -> Vec<DatafileSize> {
        each.into_iter().map(|size_bytes| DatafileSize { size_bytes, ..DatafileSize::default() }).collect()
    }

    fn of(size_bytes: u64, lengths: Lengths) -> Settled {
        Settled { size_bytes, lengths, is_exact: true, doubtful: None }
    }

    #[test]
    fn a_hole_is_distinguished_from_bytes_that_are_lost() {
        let layout = striped();
        let first =
            |settled: &Settled, each| size_mismatch(&layout, settled, &sizes(each)).map(|m| (m.index, m.is_bytes, m.expected_bytes));
        let whole = of(450, Lengths::Whole);
        assert_eq!(first(&whole, [200, 150, 100]), None);
        assert_eq!(first(&whole, [200, 150, 0]), Some((2, 0, 100)), "gone");
        assert_eq!(first(&whole, [200, 149, 100]), Some((1, 149, 150)), "cut off");
        assert_eq!(first(&whole, [201, 150, 100]), Some((0, 201, 200)), "another's");
        assert_eq!(first(&Settled { is_exact: false, ..whole }, [900, 150, 100]), None, "it may have been written since");
        let with_holes = of(450, Lengths::AtLeast(vec![0, 150, 40]));
        assert_eq!(first(&with_holes, [0, 150, 40]), None);
        assert_eq!(first(&with_holes, [0, 150, 39]), Some((2, 39, 40)));
        let unknown = of(450, Lengths::Unknown);
        assert_eq!(first(&unknown, [0, 150, 0]), None);
        assert_eq!(first(&unknown, [200, 120, 100]), Some((1, 120, 150)), "its last byte is known to be there");
        assert_eq!(first(&of(0, Lengths::Whole), [0, 0, 0]), None);
    }
}
