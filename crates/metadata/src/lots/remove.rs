//! Removing a lot: its files' names, then its shares, then its row. The worker completes what cannot be done immediately.

use super::keeper::Keeper;
use thalweg_wire::protocol::lots::{LotReport, LotState};
use thalweg_wire::protocol::metadata::LotId;
use thalweg_wire::{Error, ErrorKind, Result};

impl Keeper {
    /// Removes a lot, and with `files` its files too.
    ///
    /// # Errors
    /// [`ErrorKind::NotEmpty`] if it has files that are to stay; an error of the database.
    pub(super) fn remove(&self, id: LotId, files: bool) -> Result<LotReport> {
        let _claim = self.claims.claim(id);
        let lot = self.standing(id)?;
        // From now on the lot accepts no files, so that the count is final.
        self.change(id, |row| (row.lot.state, row.takes_files) = (LotState::Removing, files))?;
        let uses = self.uses(&lot);
        if let Err(error) = self.empty(id) {
            if error.kind() != ErrorKind::NotEmpty {
                self.notify();
            }
            return Err(error);
        }
        // From here on it is removed; the worker completes the rest once unreachable servers are back.
        if self.give_back(id).is_err() {
            self.notify();
        }
        let mut report = self.report(lot, uses);
        report.lot.state = LotState::Removing;
        Ok(report)
    }

    /// Completes a lot's removal. A lot with files that are to stay is restored.
    ///
    /// # Errors
    /// [`ErrorKind::NotEmpty`] with the number of files; a server is unreachable; an error of the database.
    pub(super) fn finish(&self, id: LotId) -> Result<()> {
        self.empty(id)?;
        self.give_back(id)
    }

    /// Empties the lot. A lot with files that are to stay is restored.
    fn empty(&self, id: LotId) -> Result<()> {
        let row = self.namespace.lot(id)?;
        if row.takes_files {
            self.remove_files(id)?;
        } else {
            let files = self.files_of(id)?.into_iter().filter(|(_, has_name)| *has_name).count();
            if files > 0 {
                self.change(id, |row| row.lot.state = LotState::Active)?;
                let many = if files == 1 { "1 file".to_owned() } else { format!("{files} files") };
                let problem = format!("lot `{}` has {many}: remove them first, or remove it with --files", row.lot.name);
                return Err(Error::new(ErrorKind::NotEmpty, problem));
            }
        }
        self.clear_directories(id)
    }

    /// Releases its targets' shares, then deletes the row.
    fn give_back(&self, id: LotId) -> Result<()> {
        let lot = self.namespace.lot(id)?.lot;
        // Before a share is released: the removal of the lot's files must survive power loss.
        self.namespace.database().sync(&mut crate::database::Unwatched)?;
        let released: Vec<Result<()>> = lot.shares.iter().map(|(target, _)| self.release(id, *target)).collect();
        released.into_iter().collect::<Result<()>>()?;
        self.namespace.forget_lot(id)
    }
}
