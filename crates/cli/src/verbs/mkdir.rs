//! `thalweg mkdir`: makes directories.

use crate::operand::StoreFlags;
use crate::{failure::Failure, session::Session};

/// Arguments of `thalweg mkdir`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The directories: thal://HOST:PORT/path, or paths with --store
    #[arg(required = true)]
    paths: Vec<String>,
    /// Make those above it as well, and do not mind if it is there
    #[arg(short, long)]
    parents: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// Makes them.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    for path in &arguments.paths {
        let path = arguments.store.path(path)?;
        Session::connect(&path.store, &arguments.store)?.make_directory(&path.path, arguments.parents)?;
    }
    Ok(())
}
