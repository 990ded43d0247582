//! Partial copies: files of unfinished copies, as recorded by the metadata service.
//!
//! Names do not matter: a user's own file `x.partial` is not a partial copy.

use crate::files::{DataClient, FileHandle};
use crate::metadata::MetadataClient;
use std::time::Duration;
use thalweg_layout::Layout;
use thalweg_trace::Tracer;
use thalweg_wire::protocol::metadata::DraftEntry;
use thalweg_wire::{ErrorKind, Result};

/// A partial copy.
pub struct Partial {
    /// Path; for a very deep one, the directory's number and the name.
    pub path: Vec<u8>,
    /// Time since its client disappeared; `None`: it is being written, or its client may come back.
    pub abandoned_for: Option<Duration>,
    draft: DraftEntry,
}

impl Partial {
    /// Returns all partial copies of a store.
    ///
    /// # Errors
    /// The metadata service's.
    pub fn all(tracer: &mut Tracer, names: &MetadataClient) -> Result<Vec<Partial>> {
        let partial = |draft: DraftEntry| {
            let place = &draft.place;
            let deep = || [format!("(directory {})/", place.from).as_bytes(), &place.path].concat();
            let abandoned_for = draft.abandoned_for_ns.map(Duration::from_nanos);
            Partial { path: draft.path.clone().unwrap_or_else(deep), abandoned_for, draft }
        };
        Ok(names.drafts(tracer)?.into_iter().map(partial).collect())
    }

    /// Whether the partial copy is at this path or below it.
    pub fn is_below(&self, path: &[u8]) -> bool {
        is_below(&self.path, path)
    }

    /// Returns the space that the partial copy occupies, in bytes; `None`: its servers did not report it.
    pub fn allocated_bytes(&self, tracer: &mut Tracer, data: &DataClient) -> Option<u64> {
        let targets = self.draft.layout.targets.clone();
        let layout = Layout::new(&self.draft.layout.spec, Some(targets.len() as u32), targets.len() as u32).ok()?;
        let handle = FileHandle::new(self.draft.file, String::from_utf8_lossy(&self.path), layout, targets).ok()?;
        let sizes = data.glimpse(tracer, &handle).ok()?;
        Some(sizes.iter().fold(0, |sum, size| u64::saturating_add(sum, size.allocated_bytes)))
    }

    /// Removes the partial copy, if its client has been gone for `abandoned_for`. Returns `false` if the client is back, or the copy was
    /// completed or removed meanwhile.
    ///
    /// # Errors
    /// The metadata service's.
    pub fn remove(&self, tracer: &mut Tracer, names: &MetadataClient, abandoned_for: Duration) -> Result<bool> {
        match names.remove_draft(tracer, self.draft.file, abandoned_for) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn is_below(path: &[u8], below: &[u8]) -> bool {
    let end = below.iter().rposition(|b| *b != b'/').map_or(0, |at| at + 1);
    path.strip_prefix(&below[..end]).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_below_a_path_is_meant() {
        assert!(is_below(b"/a/b.partial", b"/") && is_below(b"/a/b.partial", b"/a") && is_below(b"/a/b.partial", b"/a/"));
        assert!(is_below(b"/a/b.partial", b"/a/b.partial"));
        assert!(!is_below(b"/ab/c.partial", b"/a") && !is_below(b"(directory 7)/c.partial", b"/a"));
        assert!(!is_below(b"/a", b"/a/b"));
    }
}
