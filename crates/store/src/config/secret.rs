//! The password of the metadata's database: moved from `store.toml` into a file that only its user can read.

use super::StoreConfig;
use std::path::PathBuf;
use thalweg_base::durable;
use thalweg_metadata::database::postgresql::password;
use thalweg_wire::{Error, ErrorKind, Result};

impl StoreConfig {
    /// Returns a warning if the password is in the file on disk, or on this process's command line.
    pub(crate) fn password_warning(&self) -> Option<String> {
        let has_password = |config: &StoreConfig| config.metadata.database.as_deref().is_some_and(password::is_in);
        let shown = self.path.display();
        if StoreConfig::read(&self.path).is_ok_and(|written| has_password(&written)) {
            return Some(format!(
                "{shown} contains the password of the metadata's database: move it into a file of mode 600 with `thalweg credential password {shown}`"
            ));
        }
        let beside = password::file_beside(&self.path);
        has_password(self).then(|| {
            format!(
                "every user of this machine can read the password of the metadata's database in this command's arguments: give the address \
                 without it, and the password in {} (mode 600), PGPASSWORD or ~/.pgpass",
                beside.display()
            )
        })
    }

    /// Returns the address of the metadata's database without its password, after writing the password to a separate file.
    pub(super) fn database_without_password(&self) -> Result<Option<String>> {
        let Some(address) = self.metadata.database.as_deref().filter(|address| password::is_in(address)) else {
            return Ok(self.metadata.database.clone());
        };
        let (address, secret) = password::split(address).ok_or_else(|| {
            let problem = "the address of the metadata's database has a password that cannot be extracted: expected postgresql://USER:PASSWORD@HOST/DATABASE";
            Error::new(ErrorKind::Invalid, format!("{}: {problem}", self.path.display()))
        })?;
        let path = password::file_beside(&self.path);
        durable::replace(&format!("{secret}\n"), &path).map_err(|e| Error::system(path.display(), e))?;
        Ok(Some(address))
    }

    /// Moves the password of the metadata's database into a file of mode 600 beside this one; returns that file's path, or `None` if there
    /// is no password.
    ///
    /// # Errors
    /// An I/O error; then the password is still in at least one of the two files.
    pub fn move_password(&self) -> Result<Option<PathBuf>> {
        if !self.metadata.database.as_deref().is_some_and(password::is_in) {
            return Ok(None);
        }
        self.write()?;
        Ok(Some(password::file_beside(&self.path)))
    }
}
