//! The end of a lot: its files' names, then its shares, then its row. What cannot be done at once is done by the worker.

use super::keeper::Keeper;
use thalweg_wire::protocol::lots::{LotReport, LotState};
use thalweg_wire::protocol::metadata::LotId;
use thalweg_wire::{Error, ErrorKind, Result};

impl Keeper {
    /// Removes a lot, and with `files` its files too.
    ///
    /// # Errors
    /// [`ErrorKind::NotEmpty`] when it has files and they are to stay; the database's.
    pub(super) fn remove(&self, id: LotId, files: bool) -> Result<LotReport> {
        let _claim = self.claims.claim(id);
        let lot = self.standing(id)?;
        // From now on nothing is made in it, so that what is counted is all there is.
        self.change(id, |row| (row.lot.state, row.takes_files) = (LotState::Removing, files))?;
        let uses = self.uses(&lot);
        if let Err(error) = self.empty(id) {
            if error.kind() != ErrorKind::NotEmpty {
                self.look();
            }
            return Err(error);
        }
        // From here on it is gone: the worker does the rest when those are back that are away.
        if self.give_back(id).is_err() {
            self.look();
        }
        let mut report = self.report(lot, uses);
        report.lot.state = LotState::Removing;
        Ok(report)
    }

    /// Does what is left of a lot's removal. One that has files that are to stay is there again.
    ///
    /// # Errors
    /// [`ErrorKind::NotEmpty`] with the number of its files; when a server is away; the database's.
    pub(super) fn finish(&self, id: LotId) -> Result<()> {
        self.empty(id)?;
        self.give_back(id)
    }

    /// Nothing is in it any more. One that has files that are to stay is there again.
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

    /// Its targets promise nothing for it any more, and then it is gone.
    fn give_back(&self, id: LotId) -> Result<()> {
        let lot = self.namespace.lot(id)?.lot;
        // Before a share is given back, nobody may find the lot's files again after the power fails.
        self.namespace.database().sync(&mut crate::database::Unwatched)?;
        let released: Vec<Result<()>> = lot.shares.iter().map(|(target, _)| self.release(id, *target)).collect();
        released.into_iter().collect::<Result<()>>()?;
        self.namespace.forget_lot(id)
    }
}
