//! The effect of opening for writing and closing on a file's size ([`crate::sizes`]).

use super::Namespace;
use super::tree::*;
use crate::database::{Transaction, Unwatched, Watch, write};
use crate::inode::{Node, Settlement, Sizing};
use crate::sizes::writers::Settles;
use thalweg_wire::protocol::metadata::{End, FileId, Lengths};
use thalweg_wire::{ErrorKind, Result};

impl Namespace {
    /// Counts these files as open for writing, once each, until [`Namespace::closed`]: their sizes are no longer answered from here.
    /// Missing files and other objects are skipped. `again`: their writer started before this start of the service.
    ///
    /// # Errors
    /// An error of the database; then none of them is counted.
    pub(crate) fn opened_for_writing(&self, watch: &mut dyn Watch, files: &[FileId], again: bool) -> Result<()> {
        files.iter().for_each(|id| self.writers.begins(*id));
        let done = write(&*self.database, watch, |t| files.iter().try_for_each(|id| self.open_row(t, *id, again)));
        if done.is_err() {
            let ends: Vec<_> = files.iter().map(|id| (*id, End::Read)).collect();
            // The row is unchanged, or was already open.
            let _ = self.closed(&mut Unwatched, &ends);
        }
        done
    }

    fn open_row(&self, t: &mut dyn Transaction, id: FileId, again: bool) -> Result<()> {
        let mut found = match inode(t, id) {
            Ok(found) => found,
            Err(e) if e.kind() == ErrorKind::Stale => return Ok(()),
            Err(e) => return Err(e),
        };
        let base = match found.sizing {
            Sizing::Open => {
                self.writers.finds_open(id);
                return Ok(());
            }
            Sizing::Unknown => (None, false),
            Sizing::Settled(settlement) => (Some(settlement), false),
            Sizing::Unasked { boots, unsynced } => (Some(Settlement { unsynced, ..Settlement::empty(boots) }), true),
        };
        // Restarts since the settlement may have lost earlier writes of such a writer.
        let boots = if again { base.0.as_ref().map_or(0, |base| base.boots) } else { self.boots.now() };
        self.writers.opens(id, base, boots);
        found.sizing = Sizing::Open;
        put_inode(t, id, &found);
        Ok(())
    }

    /// Ends these uses for writing. Returns the files that have no writers left and whose datafile lengths only the I/O servers know.
    ///
    /// # Errors
    /// An error of the database; then their sizes are no longer known here.
    pub(crate) fn closed(&self, watch: &mut dyn Watch, ends: &[(FileId, End)]) -> Result<Vec<FileId>> {
        let last: Vec<FileId> = ends.iter().filter(|(id, end)| self.writers.ended(*id, *end)).map(|(id, _)| *id).collect();
        if last.is_empty() {
            return Ok(Vec::new());
        }
        let map = self.map();
        let (known_starts, round) = (self.boots.known_starts(&map), self.boots.rounds.now());
        let mut unsynced = false;
        let done = write(&*self.database, watch, |t| {
            let mut unknown = Vec::new();
            for id in &last {
                let mut found = match inode(t, *id) {
                    Ok(found) if found.sizing == Sizing::Open => found,
                    Ok(_) => continue,
                    Err(e) if e.kind() == ErrorKind::Stale => continue,
                    Err(e) => return Err(e),
                };
                let Node::File(layout) = &found.node else { continue };
                found.sizing = match self.writers.settles(*id, round, |base| known_starts.standing(base, &layout.targets)) {
                    Settles::Not => continue,
                    Settles::To(settlement) => {
                        unsynced |= settlement.unsynced.is_some();
                        if settlement.lengths == Lengths::Unknown {
                            unknown.push(*id);
                        }
                        Sizing::Settled(settlement)
                    }
                    Settles::Unknown(of) => {
                        unknown.push(*id);
                        of.map_or(Sizing::Unknown, |(boots, unsynced)| Sizing::Unasked { boots, unsynced })
                    }
                };
                put_inode(t, *id, &found);
            }
            Ok(unknown)
        });
        last.iter().for_each(|id| self.writers.settled(*id));
        if unsynced {
            self.boots.rounds.wanted();
        }
        done
    }
}
