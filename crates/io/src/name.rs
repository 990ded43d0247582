//! Names of datafiles in a target's directory: below `datafiles/`, or `lots/ID/` for those in a lot.

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use thalweg_wire::protocol::io::{DatafileId, FileId, LotId};
use thalweg_wire::{Error, Result};

/// The directory of datafiles outside lots.
pub(super) const DATAFILES: &str = "datafiles";
/// The directory of the lots' datafiles, with a subdirectory for each lot.
pub(super) const LOTS: &str = "lots";
/// The end of the names of files with checksums.
pub(super) const SUMS: &str = ".crc";

/// A datafile's name below `datafiles/`, or below the target's directory if it is in a lot; made without allocation, as it is
/// needed for each of thousands of glimpses.
pub(super) struct Name {
    bytes: [u8; Name::MOST],
    part: u8,
}

impl Name {
    /// `lots/`, 8 digits and a slash.
    const LOT: usize = 5 + 8 + 1;
    /// The above, `xx/`, 16 digits, a dot, at most 10 digits, [`SUMS`], and the terminating NUL.
    const MOST: usize = Name::LOT + 3 + 16 + 1 + 10 + SUMS.len() + 1;

    /// Returns the name of the file of checksums beside a datafile.
    pub(super) fn of_sums(id: DatafileId) -> Name {
        let mut name = Name::of(id);
        let length = name.as_c_str().to_bytes().len();
        name.bytes[length..length + SUMS.len()].copy_from_slice(SUMS.as_bytes());
        name
    }

    pub(super) fn of(id: DatafileId) -> Name {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut bytes = [0; Name::MOST];
        let hexadecimal = |bytes: &mut [u8], number: u64| {
            let many = bytes.len();
            for (place, byte) in bytes.iter_mut().enumerate() {
                *byte = DIGITS[(number >> (4 * (many - 1 - place)) & 0xf) as usize];
            }
        };
        let mut rest = &mut bytes[..];
        if let Some(lot) = id.lot {
            rest[..5].copy_from_slice(b"lots/");
            hexadecimal(&mut rest[5..13], lot.0.into());
            rest[13] = b'/';
            rest = &mut rest[Name::LOT..];
        }
        hexadecimal(&mut rest[..2], id.file.0 & 0xff);
        rest[2] = b'/';
        hexadecimal(&mut rest[3..19], id.file.0);
        rest[19] = b'.';
        let digits = id.index.checked_ilog10().unwrap_or(0) as usize + 1;
        let mut number = id.index;
        for byte in rest[20..20 + digits].iter_mut().rev() {
            *byte = DIGITS[(number % 10) as usize];
            number /= 10;
        }
        Name { bytes, part: id.file.0 as u8 }
    }

    pub(super) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).expect("its last byte is 0")
    }

    /// Returns the name below the lot's directory, for a datafile in a lot.
    pub(super) fn in_lot(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes[Name::LOT..]).expect("its last byte is 0")
    }

    /// Returns the index of its directory.
    pub(super) fn part(&self) -> usize {
        self.part.into()
    }
}

/// Returns the directory of a lot's datafiles, below the target's.
pub(super) fn lot_directory(lot: LotId) -> String {
    format!("{LOTS}/{:08x}", lot.0)
}

/// Lists the lots with a directory at a target; ignores other names in `lots/`.
pub(super) fn lots_in(directory: &Path) -> Result<Vec<LotId>> {
    let lots = directory.join(LOTS);
    let failed = |e: std::io::Error| Error::system(lots.display(), e);
    let entries = match std::fs::read_dir(&lots) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed(e)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        let number = name.to_str().filter(|name| name.len() == 8).and_then(|name| u32::from_str_radix(name, 16).ok());
        found.extend(number.map(LotId));
    }
    Ok(found)
}

/// Removes a lot's directory if it has no datafiles.
pub(super) fn clear_directory(directory: &Path, lot: LotId) {
    let directory = directory.join(lot_directory(lot));
    let parts = std::fs::read_dir(&directory).into_iter().flatten().flatten();
    parts.for_each(|part| drop(std::fs::remove_dir(part.path())));
    let _ = std::fs::remove_dir(directory);
}

/// Lists the parents of the datafiles' directories, with the lot of each.
fn roots(directory: &Path) -> Result<Vec<(Option<LotId>, PathBuf)>> {
    let of_lots = lots_in(directory)?.into_iter().map(|lot| (Some(lot), directory.join(lot_directory(lot))));
    Ok(std::iter::once((None, directory.join(DATAFILES))).chain(of_lots).collect())
}

/// A callback with a datafile's lot, file, index and path.
type Each<'a> = &'a mut dyn FnMut(Option<LotId>, FileId, u32, &Path);

/// Calls `each` with lot, file, index and path of every datafile; ignores names that are not a datafile's. `of_lots`: only those
/// of lots.
pub(super) fn each_datafile(directory: &Path, of_lots: bool, each: Each<'_>) -> Result<()> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |e: std::io::Error| Error::system(path.display(), e)
    };
    for (lot, root) in roots(directory)?.into_iter().filter(|(lot, _)| lot.is_some() || !of_lots) {
        for part in std::fs::read_dir(&root).map_err(failed(&root))? {
            let part = part.map_err(failed(&root))?.path();
            if !part.is_dir() {
                continue;
            }
            for datafile in std::fs::read_dir(&part).map_err(failed(&part))? {
                let datafile = datafile.map_err(failed(&part))?;
                let name = datafile.file_name();
                let named = name.to_str().and_then(|name| name.split_once('.'));
                let named = named.and_then(|(file, index)| Some((u64::from_str_radix(file, 16).ok()?, index.parse().ok()?)));
                if let Some((file, index)) = named {
                    each(lot, FileId(file), index, &datafile.path());
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::protocol::io::TargetId;

    #[test]
    fn names_are_as_the_layout_on_disk_says() {
        for (file, index) in [(0, 0), (1, 9), (0x1234_5678_9abc_def0, 10), (u64::MAX, u32::MAX), (0xff, 4095)] {
            let id = DatafileId { file: FileId(file), index, target: TargetId(0), lot: None };
            let expected = format!("{:02x}/{}.{}", file & 0xff, FileId(file), index);
            assert_eq!(Name::of(id).as_c_str().to_str().unwrap(), expected);
            assert_eq!(Name::of_sums(id).as_c_str().to_str().unwrap(), format!("{expected}.crc"));
            let of_lot = Name::of(DatafileId { lot: Some(LotId(0x12_3456)), ..id });
            assert_eq!(of_lot.as_c_str().to_str().unwrap(), format!("lots/00123456/{expected}"));
            assert_eq!(of_lot.in_lot().to_str().unwrap(), expected);
        }
    }
}
