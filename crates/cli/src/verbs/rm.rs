//! `thalweg rm`: removes files, and directories with `-r`.

use crate::operand::StoreFlags;
use crate::{failure::Failure, session::Session};
use thalweg_store::protocol::metadata::FileKind;

/// Arguments of `thalweg rm`.
#[derive(clap::Args)]
pub struct Arguments {
    /// What to remove: thal://HOST:PORT/path, or paths with --store
    #[arg(required = true)]
    paths: Vec<String>,
    /// Directories with everything in them
    #[arg(short, long)]
    recursive: bool,
    /// Do not mind if it is not there
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// Removes.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    for path in &arguments.paths {
        let path = arguments.store.path(path)?;
        let session = Session::connect(&path.store, &arguments.store)?;
        match session.stat_if_there(&path.path)? {
            None if arguments.force => {}
            // Asked again for the error's own words.
            None => drop(session.stat(&path.path)?),
            Some(known) if known.kind != FileKind::Directory => session.remove(&path.path)?,
            Some(_) if arguments.recursive => empty(&session, &path.path)?,
            Some(_) => return Err(Failure::failed(format!("{path}: is a directory; -r removes it with everything in it"))),
        }
    }
    Ok(())
}

/// Removes a directory and what is in it, deepest first. The root itself stays.
fn empty(session: &Session, root: &str) -> Result<(), Failure> {
    let mut open = vec![root.to_owned()];
    let mut directories = Vec::new();
    while let Some(directory) = open.pop() {
        let mut files = Vec::new();
        session.list(&directory, false, |page| {
            for entry in page {
                let name =
                    String::from_utf8(entry.name).map_err(|_| Failure::failed(format!("{directory}: has a name that is not UTF-8")))?;
                let path = format!("{}/{name}", directory.trim_end_matches('/'));
                if entry.kind == FileKind::Directory { open.push(path) } else { files.push(path) }
            }
            Ok(())
        })?;
        files.iter().try_for_each(|file| session.remove(file))?;
        directories.push(directory);
    }
    directories.iter().rev().filter(|d| !d.trim_end_matches('/').is_empty()).try_for_each(|d| session.remove_directory(d))
}
