//! The device behind waits that name none: waits for names and attributes that are read in, and for memory full of unwritten pages. The
//! device's own requests are recorded, and show what it did meanwhile.

use crate::cause::Cause;
use crate::facts::Parts;
use crate::waits::place::{Place, What};
use std::collections::{HashMap, HashSet};
use thalweg_base::numbers::{size, whole_percent};

/// A device, and its work while it was waited for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Behind {
    /// Its name.
    pub name: String,
    /// The file system on it, if files name one.
    pub filesystem: Option<String>,
    /// Part of the wait in which it was busy.
    pub busy: f64,
    /// Bytes it moved meanwhile.
    pub bytes: u64,
}

impl Behind {
    /// `vda (ext4)`.
    pub(crate) fn device(&self) -> String {
        self.filesystem.as_ref().map_or_else(|| self.name.clone(), |kind| format!("{} ({kind})", self.name))
    }

    /// `vda (ext4) busy 91 % of it, 12.0 MiB moved`.
    pub(crate) fn words(&self) -> String {
        format!("{} busy {} of it, {} moved", self.device(), whole_percent(self.busy), size(self.bytes))
    }
}

/// The device behind a charge made of these entries; `None` if the charge names its device, or none was busy.
pub(crate) fn behind(parts: &Parts<'_>, cause: Cause, members: &[usize]) -> Option<Behind> {
    use Cause as C;
    if !matches!(cause, C::ClientMetadata | C::ServerMetadata | C::ClientMemory | C::ServerMemory) {
        return None;
    }
    let tables = parts.tables;
    let largest = members.iter().map(|&i| &parts.ledger.entries[i]).max_by_key(|entry| entry.runs.total_ns)?;
    let Place::Thread { label, what: What::Blocked(_), object } = largest.place else { return None };
    let object = tables.objects.get(object as usize);
    if object.is_some_and(|object| object.attribute("device").is_some_and(|name| !name.is_empty()) || object.served_by().is_some()) {
        return None;
    }
    let machine = tables.actors.get(label as usize)?.machine;
    let members: HashSet<usize> = members.iter().copied().collect();
    let mut waits: Vec<(i64, i64)> =
        parts.ledger.path.iter().filter(|run| members.contains(&(run.entry as usize))).map(|run| (run.start, run.end)).collect();
    waits.sort_unstable();
    let (track, busy, bytes) = parts.seen.busiest(tables, machine, &waits)?;
    let name = tables.actors[track as usize].name.clone();
    let filesystem = object.and_then(|object| object.attribute("filesystem")).map(str::to_owned).or_else(|| filesystem_on(parts, &name));
    Some(Behind { name, filesystem, busy, bytes })
}

/// The file system of most files on a device.
fn filesystem_on(parts: &Parts<'_>, device: &str) -> Option<String> {
    let mut files: HashMap<&str, usize> = HashMap::new();
    for object in parts.tables.objects.iter().filter(|object| object.attribute("device") == Some(device)) {
        if let Some(kind) = object.attribute("filesystem").filter(|kind| !kind.is_empty()) {
            *files.entry(kind).or_default() += 1;
        }
    }
    files.into_iter().max_by_key(|&(kind, count)| (count, std::cmp::Reverse(kind))).map(|(kind, _)| kind.to_owned())
}
