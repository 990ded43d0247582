//! Where a file's bytes are.

use super::expected::Expected;
use super::losses::Losses;
use std::sync::Arc;
use thalweg_layout::Layout;
use thalweg_wire::protocol::io::{DatafileId, FileId, LotId, TargetId};
use thalweg_wire::protocol::metadata::Attributes;
use thalweg_wire::{Error, ErrorKind, Result};

/// What is needed to find a file's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHandle {
    id: FileId,
    path: String,
    layout: Layout,
    targets: Vec<TargetId>,
    lot: Option<LotId>,
    /// What the metadata service says of its datafiles.
    expected: Arc<Expected>,
    /// What of it is lost.
    losses: Arc<Losses>,
    /// Any handle may mend what is lost, and asks for each range whether it is.
    is_for_mending: bool,
}

impl FileHandle {
    /// File `id` as `layout` over `targets`, called `path` in messages.
    ///
    /// # Errors
    /// When there are not as many targets as datafiles.
    pub fn new(id: FileId, path: impl Into<String>, layout: Layout, targets: Vec<TargetId>) -> Result<FileHandle> {
        let path = path.into();
        if layout.num_datafiles() as usize != targets.len() {
            let problem = format!("a layout of {} datafiles on {} targets", layout.num_datafiles(), targets.len());
            return Err(Error::new(ErrorKind::Invalid, problem).on_file(path));
        }
        Ok(FileHandle { id, path, layout, targets, lot: None, expected: Arc::default(), losses: Arc::default(), is_for_mending: false })
    }

    /// A file as the metadata service describes it.
    ///
    /// # Errors
    /// When it is no file, or its layout is one that this program does not know.
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

    /// The same for an owner that may write again what is lost: not every read is an error because some bytes are, and the owner asks
    /// [`super::BufferedFile::read_as`] instead.
    #[must_use]
    pub fn for_mending(self) -> FileHandle {
        FileHandle { is_for_mending: true, ..self }
    }

    /// Its number.
    pub fn id(&self) -> FileId {
        self.id
    }
    /// What the metadata service says of its datafiles.
    pub(super) fn expected(&self) -> &Expected {
        &self.expected
    }
    /// What of it is lost.
    pub(super) fn losses(&self) -> &Losses {
        &self.losses
    }
    /// Whether reading any of it is an error, since bytes of it are lost.
    pub(super) fn is_lost(&self) -> bool {
        !self.is_for_mending && !self.losses.is_empty()
    }
    /// How long it is at least, with what is lost of it.
    pub fn lost_end(&self) -> u64 {
        self.losses.end_bytes()
    }
    /// Whether a datafile that ends here may be whole, as far as the metadata service has said.
    pub(crate) fn may_end(&self, index: u32, end_bytes: u64) -> bool {
        self.expected.allows_end(&self.layout, index, end_bytes)
    }
    /// What it is called in messages.
    pub fn path(&self) -> &str {
        &self.path
    }
    /// How it is laid out.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
    /// The target of each datafile.
    pub fn targets(&self) -> &[TargetId] {
        &self.targets
    }
    /// Datafile `index`.
    pub fn datafile(&self, index: u32) -> DatafileId {
        DatafileId { file: self.id, index, target: self.targets[index as usize], lot: self.lot }
    }
    /// All datafiles.
    pub fn datafiles(&self) -> impl Iterator<Item = DatafileId> + '_ {
        (0..self.targets.len() as u32).map(|index| self.datafile(index))
    }
}
