//! Layouts and the servers of their datafiles: files of a directory are mostly laid out alike, and share one.

use super::numbered::Numbered;
use std::sync::Arc;
use thalweg_layout::Layout;
use thalweg_wire::protocol::metadata::{Attributes, FileLayout, LotId, StoreMap, TargetId};
use thalweg_wire::{Error, ErrorKind, Result};

/// Layouts kept: those of the files that were looked at last.
const KEPT: usize = 64;

/// Where a file's datafiles are.
pub(super) struct Placed {
    pub layout: Layout,
    /// The target of each datafile, and its server's place in the map.
    pub targets: Vec<(TargetId, usize)>,
    /// The lot that they are in.
    pub lot: Option<LotId>,
}

pub(super) struct Layouts {
    servers: Numbered<u32, usize>,
    kept: Vec<(Arc<FileLayout>, Arc<Placed>)>,
    next: usize,
}

impl Layouts {
    pub(super) fn new(map: &StoreMap) -> Layouts {
        let servers = map.targets.iter().map(|entry| (entry.target.0, entry.server as usize));
        let known = servers.filter(|(_, server)| *server < map.servers.len()).collect();
        Layouts { servers: known, kept: Vec::new(), next: 0 }
    }

    /// Where a file's datafiles are.
    ///
    /// # Errors
    /// No file, a distribution that is not known here, or a target that is not in the map.
    pub(super) fn of(&mut self, attributes: &Attributes) -> Result<Arc<Placed>> {
        let Some(layout) = &attributes.layout else { return Err(Error::new(ErrorKind::IsDirectory, "it is not a file")) };
        // Those of one page are one object; those of the next page are others, equal to them.
        if let Some((_, placed)) = self.kept.iter().find(|(known, _)| Arc::ptr_eq(known, layout)) {
            return Ok(Arc::clone(placed));
        }
        if let Some((known, placed)) = self.kept.iter_mut().find(|(known, _)| known == layout) {
            *known = Arc::clone(layout);
            return Ok(Arc::clone(placed));
        }
        let many = layout.targets.len() as u32;
        let made = Layout::new(&layout.spec, Some(many), many).map_err(|e| Error::new(ErrorKind::Invalid, e.to_string()))?;
        let server = |target: &TargetId| match self.servers.get(&target.0) {
            Some(server) => Ok((*target, *server)),
            None => Err(Error::new(ErrorKind::Absent, format!("target {target} is not in the store's map"))),
        };
        let targets = layout.targets.iter().map(server).collect::<Result<_>>()?;
        let placed = Arc::new(Placed { layout: made, targets, lot: layout.lot });
        let kept = (Arc::clone(layout), Arc::clone(&placed));
        if self.kept.len() < KEPT {
            self.kept.push(kept);
        } else {
            self.kept[self.next] = kept;
            self.next = (self.next + 1) % KEPT;
        }
        Ok(placed)
    }
}
