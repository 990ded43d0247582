//! Layouts with the servers of their datafiles. Files of a directory mostly share a layout.

use super::numbered::Numbered;
use std::sync::Arc;
use thalweg_layout::Layout;
use thalweg_wire::protocol::metadata::{Attributes, FileLayout, LotId, StoreMap, TargetId};
use thalweg_wire::{Error, ErrorKind, Result};

/// Bound: layouts cached, the most recently used.
const KEPT: usize = 64;

/// Location of a file's datafiles.
pub(super) struct Placement {
    pub layout: Layout,
    /// Target of each datafile, with its server's index in the map.
    pub targets: Vec<(TargetId, usize)>,
    /// Lot that holds them.
    pub lot: Option<LotId>,
}

pub(super) struct Layouts {
    servers: Numbered<u32, usize>,
    kept: Vec<(Arc<FileLayout>, Arc<Placement>)>,
    next: usize,
}

impl Layouts {
    pub(super) fn new(map: &StoreMap) -> Layouts {
        let servers = map.targets.iter().map(|entry| (entry.target.0, entry.server as usize));
        let known = servers.filter(|(_, server)| *server < map.servers.len()).collect();
        Layouts { servers: known, kept: Vec::new(), next: 0 }
    }

    /// Returns the location of a file's datafiles.
    ///
    /// # Errors
    /// Not a file, an unknown distribution, or a target that is not in the map.
    pub(super) fn of(&mut self, attributes: &Attributes) -> Result<Arc<Placement>> {
        let Some(layout) = &attributes.layout else { return Err(Error::new(ErrorKind::IsDirectory, "it is not a file")) };
        // Files of one page share the layout object; those of the next page have an equal one.
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
        let placed = Arc::new(Placement { layout: made, targets, lot: layout.lot });
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
