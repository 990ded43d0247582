//! What the metadata service says of a file's datafiles, held against what there is.
//!
//! A datafile that comes short is a hole, or the end of the file, or has lost bytes: only the metadata service can tell, which knows how
//! long the datafiles of a file are that nobody writes. It has said so when the file was opened; by now others may have written
//! or truncated it. So what does not fit is asked for again, the datafiles and then the service: only if it says the same before and after,
//! and what there is does not fit either time, is it an error. Nothing is asked where everything fits.

use super::data::DataClient;
use super::file::FileHandle;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::io::DatafileSize;
use crate::protocol::metadata::{Attributes, Lengths, Settled};
use crate::sync::Mutex;
use thalweg_layout::{Distribution, Layout};
use thalweg_trace::Tracer;

/// How often a file that changes all the time is looked at.
const TRIES: usize = 4;

/// What was last told of a file, with the file's change counter then.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    settled: Settled,
    change: u64,
}

/// What a file's datafiles are expected to be.
#[derive(Debug, Default)]
pub(super) struct Expected(Mutex<Option<Told>>);

/// Two handles of one file are the same, whatever their owners were told of it.
impl PartialEq for Expected {
    fn eq(&self, _: &Expected) -> bool {
        true
    }
}

impl Eq for Expected {}

/// A datafile that is not as long as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Misfit {
    index: u32,
    is_bytes: u64,
    expected_bytes: u64,
}

impl Expected {
    pub(super) fn of(attributes: &Attributes) -> Expected {
        let settled = attributes.settled.clone();
        Expected(Mutex::new(settled.map(|settled| Told { settled, change: attributes.change })))
    }

    fn told(&self) -> Option<Told> {
        self.0.lock().clone()
    }

    /// Whether a datafile that ends here may be whole.
    pub(super) fn allows_end(&self, layout: &Layout, index: u32, end_bytes: u64) -> bool {
        self.0.lock().as_ref().is_none_or(|told| least(layout, &told.settled, index) <= end_bytes)
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
fn misfit(layout: &Layout, settled: &Settled, sizes: &[DatafileSize]) -> Option<Misfit> {
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

impl DataClient {
    /// Sizes of a file's datafiles, which fit what the metadata service says of them, if it says anything.
    ///
    /// # Errors
    /// As [`DataClient::glimpse`]; [`ErrorKind::Lost`] when bytes of the file are not there any more, or may not be.
    pub fn sizes(&self, tracer: &mut Tracer, file: &FileHandle) -> Result<Vec<DatafileSize>> {
        let mut told = file.expected().told();
        self.check_doubt(file, told.as_ref())?;
        for _ in 0..TRIES {
            let sizes = self.glimpse(tracer, file)?;
            let Some(problem) = told.as_ref().and_then(|told| misfit(file.layout(), &told.settled, &sizes)) else { return Ok(sizes) };
            let now = self.tell(tracer, file)?;
            self.check_doubt(file, now.as_ref())?;
            if now == told {
                return Err(self.lost(file, problem));
            }
            told = now;
        }
        // Somebody changes it all the time: what was true when it was opened says nothing.
        self.glimpse(tracer, file)
    }

    /// What the metadata service says now; it is expected from now on.
    fn tell(&self, tracer: &mut Tracer, file: &FileHandle) -> Result<Option<Told>> {
        let Some(names) = self.names() else { return Ok(None) };
        let told = match names.attributes(tracer, file.id()) {
            Ok(attributes) => attributes.and_then(|a| Some(Told { settled: a.settled?, change: a.change })),
            // It was removed, and so were its datafiles.
            Err(error) if matches!(error.kind(), ErrorKind::Stale | ErrorKind::NotFound) => None,
            Err(error) => return Err(error.on_file(file.path())),
        };
        file.expected().0.lock().clone_from(&told);
        Ok(told)
    }

    /// Whether bytes of the file may have been lost with a machine's power.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`].
    pub fn check_readable(&self, file: &FileHandle) -> Result<()> {
        self.check_doubt(file, file.expected().told().as_ref())
    }

    fn check_doubt(&self, file: &FileHandle, told: Option<&Told>) -> Result<()> {
        let Some(place) = told.and_then(|told| told.settled.doubtful) else { return Ok(()) };
        let server = self.map().servers.get(place as usize).map_or_else(|| format!("server {place}"), |server| server.name.clone());
        let problem = "was not synced before this server's machine was restarted: bytes of it may be lost. Copy it again, or truncate it to its \
                       size to accept what there is";
        Err(Error::new(ErrorKind::Lost, problem).at_server(server).on_file(file.path()))
    }

    fn lost(&self, file: &FileHandle, problem: Misfit) -> Error {
        let Misfit { index, is_bytes, expected_bytes } = problem;
        let id = file.datafile(index);
        let what = if is_bytes < expected_bytes { "bytes of the file are lost" } else { "it has bytes of another file" };
        let problem = format!(
            "datafile {} on target {} has {is_bytes} bytes instead of {expected_bytes}: {what}",
            format_args!("{}.{index}", id.file),
            id.target
        );
        let error = Error::new(ErrorKind::Lost, problem).on_file(file.path());
        match self.map().target(id.target) {
            Some((_, server)) => error.at_server(&server.name),
            None => error,
        }
    }
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
    fn a_hole_is_told_from_bytes_that_are_lost() {
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
