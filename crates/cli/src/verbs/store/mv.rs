//! `thalweg mv`: renames a file or directory, atomically.

use crate::operand::StoreFlags;
use crate::{failure::Failure, names, session::Session};
use std::ffi::OsString;
use thalweg_wire::protocol::metadata::FileKind;

/// Arguments of `thalweg mv`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The file or directory: thal://HOST:PORT/path, or a path with --store
    from: OsString,
    /// The new name, or a directory to move it into
    to: OsString,
    /// Do not replace an existing file
    #[arg(short, long)]
    no_clobber: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// Renames the file or directory.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (from, to) = (arguments.store.byte_path(&arguments.from)?, arguments.store.byte_path(&arguments.to)?);
    if from.store != to.store {
        let (from, to) = (names::text(&from.path), names::text(&to.path));
        return Err(Failure::usage(format!("{from} and {to} are in different stores: copy with thalweg cp, then remove the original")));
    }
    let session = Session::connect(&from.store, &arguments.store)?;
    let mut target = to.path;
    let into = target.ends_with(b"/") || session.stat_if_there(&target)?.is_some_and(|a| a.kind == FileKind::Directory);
    if into {
        target = names::join(&target, names::last(&from.path));
    }
    session.rename(&from.path, &target, !arguments.no_clobber)
}
