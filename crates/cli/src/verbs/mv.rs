//! `thalweg mv`: gives a file or directory another name, at once and for everybody.

use crate::operand::StoreFlags;
use crate::{failure::Failure, session::Session};
use thalweg_store::protocol::metadata::FileKind;

/// Arguments of `thalweg mv`.
#[derive(clap::Args)]
pub struct Arguments {
    /// What: thal://HOST:PORT/path, or a path with --store
    from: String,
    /// Its new name, or a directory to put it in
    to: String,
    /// Do not replace a file of the new name
    #[arg(short, long)]
    no_clobber: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// Renames.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (from, to) = (arguments.store.path(&arguments.from)?, arguments.store.path(&arguments.to)?);
    if from.store != to.store {
        return Err(Failure::usage(format!("{from} and {to} are in different stores: copy with thalweg cp, then remove")));
    }
    let session = Session::connect(&from.store, &arguments.store)?;
    let mut target = to.path.clone();
    let into = target.ends_with('/') || session.stat_if_there(&target)?.is_some_and(|a| a.kind == FileKind::Directory);
    if into {
        let name = from.path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        target = format!("{}/{name}", target.trim_end_matches('/'));
    }
    session.rename(&from.path, &target, !arguments.no_clobber)
}
