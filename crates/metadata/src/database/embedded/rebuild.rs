//! A database made from rows, in a directory beside the present one's files.
//!
//! The present files are moved to a directory `before-restore-N` within the metadata directory, the redb file first; the new ones are moved
//! in, the redb file last. Between the two a start is refused, as a log without its database is, and as a directory without one is.

use super::offline::{CACHE_BYTES, check_unused};
use crate::database::layers::Layer;
use crate::database::log::{self, DATABASE_FILE, Segment};
use crate::database::redb_file::{self, Redb, guarded, put_into, redb_error};
use crate::database::{DatabaseError, Rebuild, Table};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use thalweg_base::{durable, private};

/// The directory in which it is made.
const MAKING: &str = "restoring";
/// Prefix of the directories that keep earlier databases.
const BEFORE: &str = "before-restore-";
/// Rows of a commit.
const RUN: usize = 1 << 16;

struct Making {
    directory: PathBuf,
    making: PathBuf,
    redb: Option<Redb>,
    identity: u64,
    run: Layer,
    rows: usize,
}

/// Begins a database that is to take the place of the one in a directory.
///
/// # Errors
/// It cannot be created.
pub fn rebuild(directory: &Path) -> Result<Box<dyn Rebuild>, DatabaseError> {
    let making = directory.join(MAKING);
    if making.exists() {
        // Left by a restore that was killed.
        std::fs::remove_dir_all(&making).map_err(|e| DatabaseError::io(&making, "cannot remove what an earlier restore left", &e))?;
    }
    private::make_directory(&making).map_err(|e| DatabaseError::io(&making, "cannot create", &e))?;
    let (redb, identity, _) = redb_file::open(&making.join(DATABASE_FILE), CACHE_BYTES)?;
    Ok(Box::new(Making { directory: directory.to_owned(), making, redb: Some(redb), identity, run: Layer::default(), rows: 0 }))
}

impl Making {
    /// Commits the rows set since the last time.
    fn commit(&mut self, change: u64) -> Result<(), DatabaseError> {
        let path = self.making.join(DATABASE_FILE);
        let run = std::mem::take(&mut self.run);
        self.rows = 0;
        let redb = self.redb.as_ref().expect("it is open until it is complete");
        guarded(&path, || put_into(redb, &run, change).map_err(|e| redb_error(&path, &e)))
    }

    /// Moves the present files to a new directory; `None` if there are none.
    fn move_present(&self) -> Result<Option<PathBuf>, DatabaseError> {
        let mut present: Vec<PathBuf> = log::segments(&self.directory)?.into_iter().map(|(_, path)| path).collect();
        let database = self.directory.join(DATABASE_FILE);
        if database.exists() {
            present.insert(0, database);
        }
        if present.is_empty() {
            return Ok(None);
        }
        let before = (1..).map(|n: u32| self.directory.join(format!("{BEFORE}{n}"))).find(|path| !path.exists());
        let before = before.expect("one of so many names is free");
        private::make_directory(&before).map_err(|e| DatabaseError::io(&before, "cannot create", &e))?;
        move_files(&present, &before)?;
        Ok(Some(before))
    }
}

/// Gives a path that root has made to the owner of the metadata directory, who runs the service.
fn give_to_owner(path: &Path, directory: &Path) -> Result<(), DatabaseError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let given = std::fs::metadata(directory).and_then(|found| chown(path, Some(found.uid()), Some(found.gid())));
    given.map_err(|e| DatabaseError::io(path, "cannot give it to the owner of the metadata directory", &e))
}

/// Moves files into a directory on the same file system, in this order, durably.
fn move_files(files: &[PathBuf], to: &Path) -> Result<(), DatabaseError> {
    for from in files {
        let moved = std::fs::rename(from, to.join(from.file_name().unwrap_or_default()));
        moved.map_err(|e| DatabaseError::io(from, &format!("cannot move to {}", to.display()), &e))?;
        let parent = from.parent().unwrap_or(Path::new("."));
        // The next file is moved once this one is on stable storage where it is now.
        durable::sync_directory(to).and_then(|()| durable::sync_directory(parent)).map_err(|e| DatabaseError::io(to, "cannot sync", &e))?;
    }
    Ok(())
}

impl Rebuild for Making {
    fn put(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) -> Result<(), DatabaseError> {
        self.run.set(table, key.to_vec(), value.map(<[u8]>::to_vec));
        self.rows += 1;
        if self.rows == RUN { self.commit(0) } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>, change: u64) -> Result<Option<String>, DatabaseError> {
        self.commit(change)?;
        self.redb = None;
        let segment = Segment::create(&self.making, self.identity, change + 1, None)?;
        let present = self.directory.join(DATABASE_FILE);
        if present.exists() {
            check_unused(&present)?;
        }
        let before = self.move_present()?;
        let new = [segment.path, self.making.join(DATABASE_FILE)];
        new.iter().chain(&before).try_for_each(|path| give_to_owner(path, &self.directory))?;
        move_files(&new, &self.directory).map_err(|error| match &before {
            Some(before) => {
                let problem = format!("{}; the database that was there is in {}: move its files back", error.problem, before.display());
                DatabaseError { problem, ..error }
            }
            None => error,
        })?;
        Ok(before.map(|path| path.display().to_string()))
    }
}

impl Drop for Making {
    /// Leaves nothing of one that was not completed, and of a complete one only an empty directory, which is removed.
    fn drop(&mut self) {
        self.redb = None;
        let _ = std::fs::remove_dir_all(&self.making);
    }
}
