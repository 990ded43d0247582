//! What the metadata service says of a file's datafiles.

use thalweg_base::sync::Mutex;
use thalweg_layout::{Distribution, Layout};
use thalweg_wire::protocol::io::DatafileSize;
use thalweg_wire::protocol::metadata::{Attributes, Lengths, Settled};

/// What was last answered of a file, with the file's change counter then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LastKnown {
    pub settled: Settled,
    pub change: u64,
}

/// What a file's datafiles are expected to be.
#[derive(Debug, Default)]
pub(super) struct Expected(Mutex<Option<LastKnown>>);

/// Two handles of one file are the same, whatever their owners know of it.
impl PartialEq for Expected {
    fn eq(&self, _: &Expected) -> bool {
        true
    }
}

impl Eq for Expected {}

/// A datafile that is not as long as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Misfit {
    pub index: u32,
    pub is_bytes: u64,
    pub expected_bytes: u64,
}

impl Expected {
    pub(super) fn of(attributes: &Attributes) -> Expected {
        let settled = attributes.settled.clone();
        Expected(Mutex::new(settled.map(|settled| LastKnown { settled, change: attributes.change })))
    }

    /// What was answered last.
    pub(super) fn last_known(&self) -> Option<LastKnown> {
        self.0.lock().clone()
    }

    /// This was answered now.
    pub(super) fn set(&self, known: &Option<LastKnown>) {
        self.0.lock().clone_from(known);
    }

    /// Whether a datafile that ends here may be whole.
    pub(super) fn allows_end(&self, layout: &Layout, index: u32, end_bytes: u64) -> bool {
        self.0.lock().as_ref().is_none_or(|known| least(layout, &known.settled, index) <= end_bytes)
    }
}

/// How long a datafile is at least.
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

/// The first datafile whose size is not what was settled.
pub(super) fn misfit(layout: &Layout, settled: &Settled, sizes: &[DatafileSize]) -> Option<Misfit> {
    (0..).zip(sizes).find_map(|(index, size)| {
        let is_bytes = size.size_bytes;
        let least_bytes = least(layout, settled, index);
        if is_bytes < least_bytes {
            return Some(Misfit { index, is_bytes, expected_bytes: least_bytes });
        }
        let most_bytes = layout.datafile_size(index, settled.size_bytes);
        (settled.is_exact && is_bytes > most_bytes).then_some(Misfit { index, is_bytes, expected_bytes: most_bytes })
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
        let first = |settled: &Settled, each| misfit(&layout, settled, &sizes(each)).map(|m| (m.index, m.is_bytes, m.expected_bytes));
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
