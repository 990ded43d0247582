//! `thalweg mkdir`: makes directories, all operands of a store in one request.

use super::walking::Troubles;
use crate::lots::{self, LotFlag};
use crate::operand::StoreFlags;
use crate::session::Sessions;
use crate::{failure::Failure, names, output};
use std::ffi::OsString;
use thalweg_wire::protocol::metadata::FilePath;

/// Arguments of `thalweg mkdir`.
#[derive(clap::Args)]
#[command(
    after_help = "With --lot, new files and directories in the given directories go to the lot; with -p, also in directories that exist already."
)]
pub(crate) struct Arguments {
    /// The directories: thal://HOST:PORT/path, or paths with --store
    #[arg(required = true)]
    paths: Vec<OsString>,
    /// Make parent directories as needed; no error if the directory exists
    #[arg(short, long)]
    parents: bool,
    #[command(flatten)]
    lot: LotFlag,
    #[command(flatten)]
    store: StoreFlags,
}

/// Makes the directories.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let paths = arguments.paths.iter().map(|path| arguments.store.byte_path(path)).collect::<Result<Vec<_>, _>>()?;
    let sessions = Sessions::new(&arguments.store);
    let mut troubles = Troubles::new("mkdir");
    // In the order given: one may be inside another.
    for of_one_store in paths.chunk_by(|a, b| a.store == b.store) {
        let session = sessions.of(&of_one_store[0].store)?;
        let lot = arguments.lot.lot.as_deref().map(|name| lots::for_new_files(&session, name).map(|id| (name, id))).transpose()?;
        let places: Vec<FilePath> = of_one_store.iter().map(|path| FilePath::at(&path.path)).collect();
        for (path, made) in of_one_store.iter().zip(session.make_directories(&places, arguments.parents)) {
            let set = made.and_then(|()| match lot {
                Some((_, id)) => session.set_lot(&FilePath::at(&path.path), id),
                None => Ok(false),
            });
            if let (Ok(true), Some((lot, _))) = (&set, lot) {
                output::note(&format!("{}: files already in it stay outside lot `{lot}`", names::text(&path.path)));
            }
            if let Err(error) = set {
                troubles.say(match error.file() {
                    Some(_) => error.to_string(),
                    None => format!("{}: {error}", names::text(&path.path)),
                });
            }
        }
    }
    troubles.end()
}
