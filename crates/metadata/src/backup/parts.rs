//! Parts: reading them from a database, and their rows.

use crate::database::{DatabaseError, Moment, Table, View, is_of_file};
use crate::namespace::Namespace;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg_base::sync::Finally;
use thalweg_wire::limits;
use thalweg_wire::protocol::common::Witnessed;
use thalweg_wire::{Error, ErrorKind, Result};

/// Bytes before a row's key: table, length of the key, length of the value.
const ROW_HEADER_BYTES: usize = 7;

/// A backup that a client reads.
pub(crate) struct Parts {
    moment: Moment,
    /// The moment: the service's start, and the last change.
    pub of: Witnessed,
    /// The number of the next part.
    pub next: u64,
    /// The table to read, and the last key read of it.
    at: Option<(Table, Option<Vec<u8>>)>,
    _counted: Box<dyn Send>,
}

impl Parts {
    /// Takes the present moment. Instead: a client that gets `Busy` waits until another backup has ended.
    pub(crate) fn begin(namespace: &Namespace, running: &Arc<AtomicUsize>) -> Result<Parts> {
        let counted = Arc::clone(running);
        let before = counted.fetch_add(1, Ordering::AcqRel);
        let counted = Finally(move || {
            counted.fetch_sub(1, Ordering::AcqRel);
        });
        if before >= limits::BACKUPS {
            let problem = format!("{before} backups of this store are being read, which is the maximum: wait until one has ended");
            return Err(Error::new(ErrorKind::Busy, problem));
        }
        let moment = namespace.database().moment()?;
        let of = Witnessed { start: namespace.service_start(), change: moment.change };
        Ok(Parts { moment, of, next: 0, at: Some((Table::ALL[0], None)), _counted: Box::new(counted) })
    }

    /// Reads the next part into an empty buffer; returns whether more follow.
    pub(crate) fn read(&mut self, part: &mut Vec<u8>) -> Result<bool> {
        part.clear();
        self.next += 1;
        while let Some((table, after)) = self.at.take() {
            let last = pack(&*self.moment.view, table, after.as_deref(), part)?;
            self.at = match last {
                Some(last) => Some((table, Some(last))),
                None => Table::from_number(table as u8 + 1).map(|table| (table, None)),
            };
            if part.len() >= limits::BACKUP_PART_BYTES {
                break;
            }
        }
        Ok(self.at.is_some())
    }
}

/// Appends rows of a table to a part until it is long enough; returns the last key if the table may have more.
fn pack(view: &dyn View, table: Table, after: Option<&[u8]>, part: &mut Vec<u8>) -> Result<Option<Vec<u8>>, DatabaseError> {
    let (mut last, mut is_odd) = (None, None);
    view.scan(table, &[], after, &mut |key, value| {
        if is_of_file(table, key) {
            return true;
        }
        let (Ok(key_bytes), Ok(value_bytes)) = (u16::try_from(key.len()), u32::try_from(value.len())) else {
            is_odd = Some(key.len());
            return false;
        };
        part.push(table as u8);
        part.extend_from_slice(&key_bytes.to_le_bytes());
        part.extend_from_slice(&value_bytes.to_le_bytes());
        part.extend_from_slice(key);
        part.extend_from_slice(value);
        if part.len() >= limits::BACKUP_PART_BYTES {
            last = Some(key.to_vec());
        }
        last.is_none()
    })?;
    match is_odd {
        Some(bytes) => {
            let problem = format!("table {} has a key of {bytes} bytes: {}", table.name(), crate::database::PUT_BACK);
            Err(DatabaseError::new(std::path::Path::new("metadata"), problem))
        }
        None => Ok(last),
    }
}

/// Verifies that the rows of successive parts are in order, each once.
#[derive(Debug, Default)]
pub struct Order(Option<(Table, Vec<u8>)>);

impl Order {
    fn follows(&mut self, table: Table, key: &[u8]) -> bool {
        let follows = self.0.as_ref().is_none_or(|(last, last_key)| (*last, &last_key[..]) < (table, key));
        match &mut self.0 {
            Some((last, last_key)) => {
                *last = table;
                last_key.clear();
                last_key.extend_from_slice(key);
            }
            none => *none = Some((table, key.to_vec())),
        }
        follows
    }
}

/// Calls `each` with every row of a part: table, key, value.
///
/// # Errors
/// [`ErrorKind::Corrupt`] if it is no part, or its rows do not follow those before; and those of `each`.
pub fn each_row(mut part: &[u8], order: &mut Order, mut each: impl FnMut(Table, &[u8], &[u8]) -> Result<()>) -> Result<()> {
    let cut = || Error::new(ErrorKind::Corrupt, "a part of the backup does not consist of rows, although its checksum is right");
    while !part.is_empty() {
        let (header, rest) = part.split_at_checked(ROW_HEADER_BYTES).ok_or_else(cut)?;
        let table = Table::from_number(header[0]).ok_or_else(|| {
            let newer = format!("the backup has a table {} that this release does not know: use the release that made it", header[0]);
            Error::new(ErrorKind::Version, newer)
        })?;
        let key_bytes = usize::from(u16::from_le_bytes([header[1], header[2]]));
        let value_bytes = u32::from_le_bytes([header[3], header[4], header[5], header[6]]) as usize;
        let (key, rest) = rest.split_at_checked(key_bytes).ok_or_else(cut)?;
        let (value, rest) = rest.split_at_checked(value_bytes).ok_or_else(cut)?;
        if !order.follows(table, key) {
            return Err(Error::new(ErrorKind::Corrupt, "the rows of the backup are not in order, although its checksums are right"));
        }
        each(table, key, value)?;
        part = rest;
    }
    Ok(())
}
