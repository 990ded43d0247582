//! The file of a backup.
//!
//! ```text
//!   0  8  magic "THALWBAK"
//!   8  4  version (1), little endian as everything here
//!  12  4  N, the length of the header's text, at most 64 KiB
//!  16  N  the header: TOML ([`Header`])
//!   .  4  CRC-32C of all before
//!         blocks
//! block
//!   0  4  length of its rows; 0 in the last block
//!   4  4  CRC-32C of: the header's CRC, the block's number u64 from 0, the length, the rows
//!   8     rows ([`thalweg_metadata::backup`]): at most 16 MiB, in order of table and key throughout the file
//! after the last block: the number of rows u64, and the CRC-32C of the header's CRC and of that number
//! ```
//!
//! A block's checksum covers its place and the file that it is in, so blocks that are left out, exchanged, or of another backup are noticed.
//! A file that is cut off lacks its last block. Nothing follows that block.

use serde::{Deserialize, Serialize};
use std::fs::{File, TryLockError};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use thalweg_base::release::{self, RELEASE};
use thalweg_base::{durable, private};
use thalweg_bulk::crc32c;
use thalweg_metadata::backup::{Order, each_row};
use thalweg_wire::protocol::common::{ServiceStart, Witnessed};
use thalweg_wire::{Error, ErrorKind, Result};

const MAGIC: &[u8; 8] = b"THALWBAK";
/// The version of the format.
pub const VERSION: u32 = 1;
/// Bound: bytes of the header's text.
const HEADER_BYTES: u32 = 64 << 10;
/// Bound: bytes of a block's rows; the service's parts are far smaller.
const BLOCK_BYTES: u32 = 16 << 20;
/// The end of the name of a file that is being written.
const PARTIAL: &str = ".partial";

/// Describes a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The release that wrote it.
    pub made_by: String,
    /// The store's identifier, 16 hexadecimal digits.
    pub store: String,
    /// The epoch of the service's start.
    pub epoch: u64,
    /// That start, 16 hexadecimal digits.
    pub start: String,
    /// The last change in it.
    pub change: u64,
    /// When it was taken: seconds since 1970, by the clock of the machine that took it.
    pub taken_s: u64,
}

impl Header {
    /// Describes a backup of this moment.
    pub fn of(store: u64, of: Witnessed, taken_s: u64) -> Header {
        let Witnessed { start: ServiceStart { epoch, start }, change } = of;
        Header { made_by: RELEASE.to_owned(), store: format!("{store:016x}"), epoch, start: format!("{start:016x}"), change, taken_s }
    }

    /// Returns the store, and the moment.
    fn moment(&self) -> Option<(u64, Witnessed)> {
        let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
        let start = ServiceStart { epoch: self.epoch, start: number(&self.start)? };
        Some((number(&self.store)?, Witnessed { start, change: self.change }))
    }
}

fn block_crc(seed: u32, number: u64, rows: &[u8]) -> u32 {
    let length = u32::try_from(rows.len()).unwrap_or(u32::MAX);
    let mut place = [0; 16];
    place[..4].copy_from_slice(&seed.to_le_bytes());
    place[4..12].copy_from_slice(&number.to_le_bytes());
    place[12..].copy_from_slice(&length.to_le_bytes());
    // (Of the place and of the rows one after the other, without copying the rows.)
    let of_rows = crc32c(rows);
    crc32c(&[&place[..], &of_rows.to_le_bytes()].concat())
}

fn end_crc(seed: u32, rows: u64) -> u32 {
    crc32c(&[&seed.to_le_bytes()[..], &rows.to_le_bytes()].concat())
}

/// A backup being written, under a temporary name until it is complete.
pub struct Writer {
    out: BufWriter<File>,
    path: PathBuf,
    partial: PathBuf,
    seed: u32,
    blocks: u64,
    rows: u64,
    bytes: u64,
    order: Order,
    is_complete: bool,
}

impl Writer {
    /// Begins a file that must not exist.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`]; [`ErrorKind::Busy`] if another process is writing it; or the file system's.
    pub fn create(path: &Path, header: &Header) -> Result<Writer> {
        refuse_existing(path)?;
        let mut name =
            path.file_name().ok_or_else(|| Error::new(ErrorKind::Invalid, format!("{}: no file's name", path.display())))?.to_owned();
        name.push(PARTIAL);
        let partial = path.with_file_name(name);
        let failed = |e: std::io::Error| Error::system(partial.display(), e);
        // What a killed backup left is written anew.
        let file = private::files().write(true).create(true).truncate(false).open(&partial).map_err(failed)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let problem = format!("{}: another process is writing this backup: wait until it has ended", partial.display());
                return Err(Error::new(ErrorKind::Busy, problem));
            }
            Err(TryLockError::Error(e)) => return Err(failed(e)),
            Ok(()) => file.set_len(0).map_err(failed)?,
        }
        let text = toml::to_string(header).map_err(|e| Error::new(ErrorKind::Io, e.to_string()))?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
        let seed = crc32c(&bytes);
        bytes.extend_from_slice(&seed.to_le_bytes());
        let out = BufWriter::with_capacity(1 << 20, file);
        let (path, order) = (path.to_owned(), Order::default());
        let mut writer = Writer { out, path, partial, seed, blocks: 0, rows: 0, bytes: 0, order, is_complete: false };
        writer.write(&bytes)?;
        Ok(writer)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes).map_err(|e| Error::system(self.partial.display(), e))
    }

    /// Appends a part of the service's rows, verified.
    ///
    /// # Errors
    /// It does not consist of rows that follow those before; or the file system's.
    pub fn part(&mut self, rows: &[u8]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        if rows.len() as u64 > u64::from(BLOCK_BYTES) {
            return Err(Error::new(ErrorKind::Protocol, format!("a part of {} bytes: at most {BLOCK_BYTES}", rows.len())));
        }
        let mut count = 0;
        each_row(rows, &mut self.order, |_, _, _| {
            count += 1;
            Ok(())
        })?;
        self.rows += count;
        self.write(&(rows.len() as u32).to_le_bytes())?;
        self.write(&block_crc(self.seed, self.blocks, rows).to_le_bytes())?;
        self.blocks += 1;
        self.write(rows)
    }

    /// Completes the file, durably, and gives it its name; returns the number of rows, and its length.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if the name has been taken meanwhile; or the file system's.
    pub fn finish(mut self) -> Result<(u64, u64)> {
        let (crc, end) = (block_crc(self.seed, self.blocks, &[]), end_crc(self.seed, self.rows));
        self.write(&0_u32.to_le_bytes())?;
        self.write(&crc.to_le_bytes())?;
        let rows = self.rows;
        self.write(&rows.to_le_bytes())?;
        self.write(&end.to_le_bytes())?;
        let failed = |e: std::io::Error| Error::system(self.path.display(), e);
        self.out.flush().and_then(|()| self.out.get_ref().sync_all()).map_err(failed)?;
        name_unused(&self.partial, &self.path)?;
        durable::sync_parent(&self.path).map_err(failed)?;
        self.is_complete = true;
        Ok((self.rows, self.bytes))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.is_complete {
            let _ = std::fs::remove_file(&self.partial);
        }
    }
}

/// Refuses a name that something has.
pub(super) fn refuse_existing(path: &Path) -> Result<()> {
    match path.symlink_metadata() {
        Ok(_) => Err(Error::new(ErrorKind::Exists, format!("{} exists, and a backup replaces no file: give another name", path.display()))),
        Err(_) => Ok(()),
    }
}

/// Renames a file to a name that nothing has.
fn name_unused(from: &Path, to: &Path) -> Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::EXIST) => refuse_existing(to),
        // A file system that cannot do this in one step.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            refuse_existing(to)?;
            std::fs::rename(from, to).map_err(|e| Error::system(to.display(), e))
        }
        Err(e) => Err(Error::system(to.display(), e)),
    }
}

/// A backup that is read.
pub struct Backup {
    file: BufReader<File>,
    path: PathBuf,
    /// Its description.
    pub header: Header,
    /// The store.
    pub store: u64,
    /// The moment.
    pub of: Witnessed,
    seed: u32,
    blocks: u64,
    rows: u64,
    order: Order,
    is_over: bool,
}

impl Backup {
    /// Opens a backup, and verifies its header.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if it is damaged, [`ErrorKind::Version`] if another release must read it, or the file system's.
    pub fn open(path: &Path) -> Result<Backup> {
        let file = File::open(path).map_err(|e| Error::system(path.display(), e))?;
        let mut file = BufReader::with_capacity(1 << 20, file);
        let damaged = |problem: &str| damaged(path, problem);
        let mut start = [0; 16];
        let is_whole = read_whole(&mut file, &mut start, path)?;
        if start[..8] != *MAGIC {
            return Err(damaged("it does not begin like a backup of a store's names"));
        }
        let [version, length] = [8, 12].map(|at| u32::from_le_bytes([start[at], start[at + 1], start[at + 2], start[at + 3]]));
        if !is_whole || length > HEADER_BYTES {
            return Err(damaged("its header is cut off or damaged"));
        }
        let mut rest = vec![0; length as usize + 4];
        if !read_whole(&mut file, &mut rest, path)? {
            return Err(damaged("its header is cut off"));
        }
        let (text, crc) = rest.split_at(length as usize);
        let seed = crc32c(&[&start, text].concat());
        if seed.to_le_bytes() != crc {
            return Err(damaged("its header does not match its checksum"));
        }
        let text = std::str::from_utf8(text).map_err(|_| damaged("its header is no text"))?;
        if version != VERSION {
            let made_by = toml::from_str::<toml::Table>(text).ok();
            let made_by = made_by.as_ref().and_then(|header| header.get("made_by")).and_then(toml::Value::as_str);
            let problem = release::other_format("a backup", version, VERSION, made_by);
            return Err(Error::new(ErrorKind::Version, format!("{}: {problem}", path.display())));
        }
        let header: Header = toml::from_str(text).map_err(|e| damaged(&format!("its header cannot be read: {}", e.message())))?;
        let (store, of) = header.moment().ok_or_else(|| damaged("its header has a number that is none"))?;
        let path = path.to_owned();
        Ok(Backup { file, path, header, store, of, seed, blocks: 0, rows: 0, order: Order::default(), is_over: false })
    }

    /// Verifies a whole backup; returns the number of its rows.
    ///
    /// # Errors
    /// As for [`Backup::open`].
    pub fn verify(path: &Path) -> Result<u64> {
        let mut backup = Backup::open(path)?;
        while backup.part()?.is_some() {}
        Ok(backup.rows)
    }

    /// Reads the next block's rows, verified; `None` after the last one, when the whole file is.
    ///
    /// # Errors
    /// As for [`Backup::open`].
    pub fn part(&mut self) -> Result<Option<Vec<u8>>> {
        if self.is_over {
            return Ok(None);
        }
        let mut place = [0; 8];
        self.read(&mut place)?;
        let [length, crc] = [0, 4].map(|at| u32::from_le_bytes([place[at], place[at + 1], place[at + 2], place[at + 3]]));
        if length > BLOCK_BYTES {
            return Err(self.damaged());
        }
        let mut rows = vec![0; length as usize];
        self.read(&mut rows)?;
        if block_crc(self.seed, self.blocks, &rows) != crc {
            return Err(self.damaged());
        }
        self.blocks += 1;
        if length > 0 {
            let mut count = 0;
            each_row(&rows, &mut self.order, |_, _, _| {
                count += 1;
                Ok(())
            })
            .map_err(|e| Error::new(e.kind(), format!("{}: {}", self.path.display(), e.message())))?;
            self.rows += count;
            return Ok(Some(rows));
        }
        let mut end = [0; 12];
        self.read(&mut end)?;
        let rows = u64::from_le_bytes(end[..8].try_into().expect("eight bytes"));
        if end[8..] != end_crc(self.seed, rows).to_le_bytes() || rows != self.rows {
            return Err(self.damaged());
        }
        let mut more = [0];
        if read_whole(&mut self.file, &mut more, &self.path)? {
            return Err(damaged(&self.path, "something follows its end"));
        }
        self.is_over = true;
        Ok(None)
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<()> {
        match read_whole(&mut self.file, buffer, &self.path)? {
            true => Ok(()),
            false => Err(damaged(&self.path, &format!("it is cut off in block {}", self.blocks))),
        }
    }

    fn damaged(&self) -> Error {
        damaged(&self.path, &format!("block {} does not match its checksum", self.blocks))
    }
}

fn damaged(path: &Path, problem: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{}: {problem}: use another copy of this backup, or another one", path.display()))
}

/// Fills a buffer; `false` if the file ends before.
fn read_whole(file: &mut impl Read, buffer: &mut [u8], path: &Path) -> Result<bool> {
    match file.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(Error::system(path.display(), e)),
    }
}

#[cfg(test)]
mod tests;
