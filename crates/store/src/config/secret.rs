//! The password of the metadata's database: out of `store.toml`, into a file that its user alone may read.

use super::StoreConfig;
use std::path::PathBuf;
use thalweg_base::durable;
use thalweg_metadata::database::postgresql::password;
use thalweg_wire::{Error, ErrorKind, Result};

impl StoreConfig {
    /// What is to be said where the file on disk has the password of the metadata's database in it, or this process its arguments.
    pub(crate) fn says_password(&self) -> Option<String> {
        let has_password = |config: &StoreConfig| config.metadata.database.as_deref().is_some_and(password::is_in);
        let shown = self.path.display();
        if StoreConfig::read(&self.path).is_ok_and(|written| has_password(&written)) {
            return Some(format!(
                "{shown} has the password of the metadata's database in it: `thalweg credential password {shown}` moves it into a file of mode 600"
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

    /// The address of the metadata's database as it is written, without its password, which is written to a file of its own before.
    pub(super) fn database_without_password(&self) -> Result<Option<String>> {
        let Some(address) = self.metadata.database.as_deref().filter(|address| password::is_in(address)) else {
            return Ok(self.metadata.database.clone());
        };
        let (address, secret) = password::split(address).ok_or_else(|| {
            let problem = "the address of the metadata's database has a password that cannot be taken out of it: expected postgresql://USER:PASSWORD@HOST/DATABASE";
            Error::new(ErrorKind::Invalid, format!("{}: {problem}", self.path.display()))
        })?;
        let path = password::file_beside(&self.path);
        durable::replace(&format!("{secret}\n"), &path).map_err(|e| Error::system(path.display(), e))?;
        Ok(Some(address))
    }

    /// Moves the password of the metadata's database out of the file, into one beside it that its user alone may read; where it is then. `None`: the file
    /// has none.
    ///
    /// # Errors
    /// The file system's; then the password is in one of the two files still, or in both.
    pub fn move_password(&self) -> Result<Option<PathBuf>> {
        if !self.metadata.database.as_deref().is_some_and(password::is_in) {
            return Ok(None);
        }
        self.write()?;
        Ok(Some(password::file_beside(&self.path)))
    }
}
