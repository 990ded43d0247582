//! `thalweg rm`: removes files, and directories with everything in them with `-r`.
//!
//! The walk runs ahead, and names are removed in batches behind it, directories after their contents. Symbolic links are removed, not
//! followed.

use super::walking::{Operands, Troubles, WalkFlags, Walking};
use crate::failure::Failure;
use crate::operand::{BytePath, StoreFlags};
use crate::session::Session;
use crate::{names, output};
use std::ffi::OsString;
use std::time::Duration;
use thalweg_base::numbers;
use thalweg_client::partials::Partial;
use thalweg_client::remove::Remover;
use thalweg_client::walk::{Detail, WalkMode};
use thalweg_trace::{TraceHandle, Tracer};
use thalweg_wire::ErrorKind;
use thalweg_wire::protocol::metadata::{FileKind, FilePath};

/// Arguments of `thalweg rm`.
#[derive(clap::Args)]
#[command(after_help = "If a name cannot be removed, it is reported, the others are removed, and the exit code is 1.\n\
    thalweg rm thal://HOST:PORT/a thal://HOST:PORT/b   files, links\n\
    thalweg rm -r thal:/run7                           a directory and everything in it\n\
    thalweg rm --partials --older-than 7d thal:/       partial files of killed copies; df shows their size")]
pub(crate) struct Arguments {
    /// What to remove: thal://HOST:PORT/path, or paths with --store
    #[arg(required_unless_present = "partials")]
    paths: Vec<OsString>,
    /// Remove directories and everything in them
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    /// Ignore what does not exist
    #[arg(short, long)]
    force: bool,
    /// With -r: allow removing everything in the root of a store
    #[arg(long, requires = "recursive")]
    no_preserve_root: bool,
    /// Remove and list the NAME.partial files below these paths (default: the whole store) if they are from copies whose client is gone. Files
    /// that are being written are kept, and so are files with this name that no copy made
    #[arg(long, conflicts_with_all = ["recursive", "force"])]
    partials: bool,
    /// With --partials: only if the client has been gone for at least this long
    #[arg(long, value_name = "AGE", default_value = "1d", value_parser = numbers::parse_age, requires = "partials")]
    older_than: Duration,
    /// With --partials: only list them
    #[arg(short = 'n', long, requires = "partials")]
    dry_run: bool,
    #[command(flatten)]
    walk: WalkFlags,
    #[command(flatten)]
    store: StoreFlags,
}

/// Removes the operands.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let options = arguments.walk.options(Detail::Names, WalkMode::SizesFromMetadata, &arguments.store);
    let operands = arguments.walk.operands(&arguments.paths, &arguments.store, &options)?;
    if !arguments.partials {
        operands.paths.iter().try_for_each(|(path, _)| arguments.check(path))?;
    }
    arguments.walk.around("rm", &arguments.store, &operands, false, |trace, troubles| {
        if arguments.partials {
            return arguments.remove_partials(&operands, troubles);
        }
        for store in 0..operands.walking.len() {
            arguments.remove(trace, &operands, store, troubles)?;
        }
        Ok(())
    })
}

impl Arguments {
    fn check(&self, path: &BytePath) -> Result<(), Failure> {
        if names::last(&path.path).is_empty() && !self.no_preserve_root {
            let shown = names::text(&path.given);
            return Err(Failure::usage(format!(
                "{shown}: is the root of the store: to remove everything in it, give -r --no-preserve-root"
            )));
        }
        Ok(())
    }

    fn remove_partials(&self, operands: &Operands, troubles: &mut Troubles) -> Result<(), Failure> {
        for (path, store) in &operands.paths {
            let session = &operands.walking[*store].session;
            self.partials_below(session, &path.path, troubles).or_else(|e| troubles.or_end(e))?;
        }
        Ok(())
    }

    /// Removes (unless `--dry-run`) and lists the partial copies below a path that were abandoned long enough ago.
    fn partials_below(&self, session: &Session, below: &[u8], troubles: &mut Troubles) -> Result<(), Failure> {
        let tracer = &mut Tracer::off();
        for partial in Partial::all(tracer, session.names()).map_err(Failure::failed)? {
            let Some(age) = partial.abandoned_for.filter(|age| *age >= self.older_than && partial.is_below(below)) else { continue };
            let space = partial.allocated_bytes(tracer, session.data()).map_or("?".to_owned(), numbers::size);
            let said = format!("{}: {space}, abandoned {} ago", names::text(&partial.path), numbers::age(age));
            if self.dry_run {
                output::line(&said)?;
                continue;
            }
            match partial.remove(tracer, session.names(), self.older_than) {
                Ok(true) => output::line(&format!("{said}: removed"))?,
                Ok(false) => {}
                Err(error) => troubles.of(&partial.path, &error),
            }
        }
        Ok(())
    }

    /// Removes the operands that are in one store.
    fn remove(&self, trace: &TraceHandle, operands: &Operands, store: usize, troubles: &mut Troubles) -> Result<(), Failure> {
        let Walking { session, walker } = &operands.walking[store];
        let mut tracer = trace.thread("main");
        let paths: Vec<&BytePath> = operands.paths.iter().filter(|(_, of)| *of == store).map(|(path, _)| path).collect();
        let places: Vec<FilePath> = paths.iter().map(|path| FilePath::at(&path.path)).collect();
        let known = session.stat_many(&mut tracer, &places)?;
        let mut remover = Remover::new(session.names().clone(), trace, self.force);
        for (path, known) in paths.iter().zip(known) {
            match known {
                Err(error) if self.force && error.kind() == ErrorKind::NotFound => {}
                Err(error) => troubles.of(&path.path, &error),
                Ok(known) if known.kind == FileKind::Directory && !self.recursive => {
                    troubles.say(format!("{}: is a directory: -r removes it with everything in it", names::text(&path.path)));
                }
                Ok(known) => remover.remove_path(&mut tracer, walker, &path.path, &known, &mut |path, error| troubles.of(path, error)),
            }
        }
        remover.finish(&mut |path, error| troubles.of(path, error));
        Ok(())
    }
}
