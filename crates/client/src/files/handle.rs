//! File handles: the location of a file's bytes.

use super::expected::Expected;
use super::losses::Losses;
use std::sync::Arc;
use thalweg_layout::Layout;
use thalweg_wire::protocol::io::{DatafileId, FileId, LotId, TargetId};
use thalweg_wire::protocol::metadata::Attributes;
use thalweg_wire::{Error, ErrorKind, Result};

/// Identifies a file and locates its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHandle {
    id: FileId,
    path: String,
    layout: Layout,
    targets: Vec<TargetId>,
    lot: Option<LotId>,
    /// Expected sizes of its datafiles.
    expected: Arc<Expected>,
    /// Lost bytes of the file.
    losses: Arc<Losses>,
    /// Whether reads are checked for lost bytes per range rather than failing for the whole file.
    is_for_mending: bool,
}

impl FileHandle {
    /// Creates a handle of file `id` with `layout` over `targets`; `path` names it in messages.
    ///
    /// # Errors
    /// When the numbers of targets and datafiles differ.
    pub fn new(id: FileId, path: impl Into<String>, layout: Layout, targets: Vec<TargetId>) -> Result<FileHandle> {
        let path = path.into();
        if layout.num_datafiles() as usize != targets.len() {
            let problem = format!("a layout of {} datafiles on {} targets", layout.num_datafiles(), targets.len());
            return Err(Error::new(ErrorKind::Invalid, problem).on_file(path));
        }
        Ok(FileHandle { id, path, layout, targets, lot: None, expected: Arc::default(), losses: Arc::default(), is_for_mending: false })
    }

    /// Creates a handle from the attributes reported by the metadata service.
    ///
    /// # Errors
    /// When it is not a file, or its layout is unknown to this version.
    pub fn from_attributes(path: impl Into<String>, attributes: &Attributes) -> Result<FileHandle> {
        let path = path.into();
        let Some(layout) = &attributes.layout else {
            return Err(Error::new(ErrorKind::IsDirectory, "it is not a file").on_file(path));
        };
        let (spec, targets, lot) = (&layout.spec, &layout.targets, layout.lot);
        let many = targets.len() as u32;
        match Layout::new(spec, Some(many), many) {
            Ok(layout) => {
                let handle = FileHandle::new(attributes.id, path, layout, targets.clone())?;
                Ok(FileHandle { lot, expected: Arc::new(Expected::of(attributes)), losses: Arc::new(Losses::of(attributes)), ..handle })
            }
            Err(e) => Err(Error::new(ErrorKind::Invalid, e.to_string()).on_file(path)),
        }
    }

    /// Allows reads of a file with lost bytes, for an owner that may rewrite them. The owner must check each range with
    /// [`super::BufferedFile::read_as`].
    #[must_use]
    pub fn for_mending(self) -> FileHandle {
        FileHandle { is_for_mending: true, ..self }
    }

    /// Returns the file's number.
    pub fn id(&self) -> FileId {
        self.id
    }
    /// Returns the expected sizes of its datafiles.
    pub(super) fn expected(&self) -> &Expected {
        &self.expected
    }
    /// Returns its lost bytes.
    pub(super) fn losses(&self) -> &Losses {
        &self.losses
    }
    /// Whether every read is an error because bytes are lost.
    pub(super) fn is_lost(&self) -> bool {
        !self.is_for_mending && !self.losses.is_empty()
    }
    /// Returns the file's minimum size, in bytes, including its lost bytes.
    pub fn lost_end(&self) -> u64 {
        self.losses.end_bytes()
    }
    /// Whether a datafile that ends at `end_bytes` may be complete, according to the metadata service.
    pub(crate) fn may_end(&self, index: u32, end_bytes: u64) -> bool {
        self.expected.allows_end(&self.layout, index, end_bytes)
    }
    /// Returns the path for messages.
    pub fn path(&self) -> &str {
        &self.path
    }
    /// Returns the layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
    /// Returns the target of each datafile.
    pub fn targets(&self) -> &[TargetId] {
        &self.targets
    }
    /// Returns datafile `index`.
    pub fn datafile(&self, index: u32) -> DatafileId {
        DatafileId { file: self.id, index, target: self.targets[index as usize], lot: self.lot }
    }
    /// Iterates over all datafiles.
    pub fn datafiles(&self) -> impl Iterator<Item = DatafileId> + '_ {
        (0..self.targets.len() as u32).map(|index| self.datafile(index))
    }
}
