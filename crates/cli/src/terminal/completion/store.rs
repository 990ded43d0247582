//! Candidates from a store: its names, its lots, and the stores themselves.

use super::words::starting;
use crate::operand::StoreFlags;
use crate::session::Session;
use clap_complete::engine::CompletionCandidate;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use thalweg_trace::Tracer;
use thalweg_wire::protocol::lots::LotOperation;
use thalweg_wire::protocol::metadata::{Detail, FileKind, FilePath};

/// Maximum number of names offered. Instead: type more of the name.
const MAX_NAMES: u32 = 500;

/// Returns what completes a path in a store: the names of its directory.
pub(super) fn names(current: &OsStr) -> Vec<CompletionCandidate> {
    let typed = current.as_bytes();
    let Some(end) = typed.iter().rposition(|byte| *byte == b'/').map(|slash| slash + 1) else { return stores(current) };
    // The second slash of `thal://` ends no directory.
    if typed[..end] == *b"thal://" {
        return stores(current);
    }
    let (directory, begun) = typed.split_at(end);
    let found = listed(OsStr::from_bytes(directory), begun).unwrap_or_default();
    found.into_iter().map(|name| CompletionCandidate::new(OsString::from_vec([directory, &name].concat()))).collect()
}

/// Returns the names of a directory that begin so; directories end with a slash.
fn listed(directory: &OsStr, begun: &[u8]) -> Option<Vec<Vec<u8>>> {
    let flags = StoreFlags::typed();
    let place = flags.byte_path(directory).ok()?;
    let session = Session::connect(&place.store, &flags).ok()?;
    let (at, after) = (FilePath::at(&place.path), Some(begun).filter(|begun| !begun.is_empty()));
    let (page, _) = session.names().list(&mut Tracer::off(), &at, after, MAX_NAMES, Detail::Names).ok()?;
    // The name itself, if there is one, is not after itself.
    let whole =
        after.and_then(|begun| session.stat_if_there([&place.path, begun].concat()).ok()?).map(|found| (begun.to_vec(), found.kind));
    let longer = page.into_iter().map(|entry| (entry.name.to_vec(), entry.kind)).take_while(|(name, _)| name.starts_with(begun));
    let ended = |(name, kind): (Vec<u8>, FileKind)| if kind == FileKind::Directory { [&name, &b"/"[..]].concat() } else { name };
    Some(whole.into_iter().chain(longer).map(ended).collect())
}

/// Returns the store that is meant where none is named, and `thal:/`.
pub(super) fn stores(current: &OsStr) -> Vec<CompletionCandidate> {
    let named = std::env::var_os("THALWEG_STORE").filter(|store| !store.is_empty());
    let Some(named) = named else { return starting(std::iter::once("thal://".into()), current) };
    let address = Some(named).filter(|store| store.as_bytes().starts_with(b"thal://"));
    starting(std::iter::once("thal:/".into()).chain(address), current)
}

/// Returns the names of the lots.
pub(super) fn lots(current: &OsStr) -> Vec<CompletionCandidate> {
    let found = || {
        let flags = StoreFlags::typed();
        let session = Session::connect(&flags.path("/").ok()?.store, &flags).ok()?;
        session.names().lots(&mut Tracer::off(), LotOperation::Show { name: None }).ok()
    };
    starting(found().unwrap_or_default().into_iter().map(|report| report.lot.name.into()), current)
}
