//! `thalweg rm`: removes names; directories with everything in them with `-r`.
//!
//! The walk goes ahead, names are removed in batches behind it, directories after what was in them. Nothing is followed: a symbolic link is a
//! name like any other.

use crate::failure::Failure;
use crate::operand::{BytePath, StoreFlags};
use crate::remover::{Name, Remover};
use crate::walking::{Operands, Troubles, WalkFlags, Walking, is_gone};
use crate::{names, partials};
use std::ffi::OsString;
use std::time::Duration;
use thalweg_store::ErrorKind;
use thalweg_store::client::walk::{Detail, TreeOptions, Visit, WalkMode};
use thalweg_store::protocol::metadata::{Attributes, FileId, FileKind, Place};
use thalweg_trace::numbers;
use thalweg_trace::{TraceHandle, Tracer};

/// Arguments of `thalweg rm`.
#[derive(clap::Args)]
#[command(after_help = "What cannot be removed is said, and the rest is removed; the exit code is then 1.\n\
    thalweg rm thal://HOST:PORT/a thal://HOST:PORT/b   files, links\n\
    thalweg rm -r thal:/run7                           a directory and everything in it\n\
    thalweg rm --partials --older-than 7d thal:/       what copies that were killed have left; df says how much")]
pub struct Arguments {
    /// What to remove: thal://HOST:PORT/path, or paths with --store
    #[arg(required_unless_present = "partials")]
    paths: Vec<OsString>,
    /// Directories with everything in them
    #[arg(short, long, visible_short_alias = 'R')]
    recursive: bool,
    /// Do not mind if it is not there
    #[arg(short, long)]
    force: bool,
    /// With -r: also everything in the root of a store
    #[arg(long, requires = "recursive")]
    no_preserve_root: bool,
    /// Remove what copies have left under NAME.partial whose client is gone, below these paths (default: the whole store), and say
    /// which. Never one that is being written, nor a file of this name that no copy made
    #[arg(long, conflicts_with_all = ["recursive", "force"])]
    partials: bool,
    /// With --partials: those whose client has been gone for this long
    #[arg(long, value_name = "AGE", default_value = "1d", value_parser = numbers::parse_age, requires = "partials")]
    older_than: Duration,
    /// With --partials: only say which
    #[arg(short = 'n', long, requires = "partials")]
    dry_run: bool,
    #[command(flatten)]
    walk: WalkFlags,
    #[command(flatten)]
    store: StoreFlags,
}

/// Removes.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let options = arguments.walk.options(Detail::Names, WalkMode::SizesFromMetadata, &arguments.store);
    let operands = arguments.walk.operands(&arguments.paths, &arguments.store, &options)?;
    if !arguments.partials {
        operands.paths.iter().try_for_each(|(path, _)| arguments.check(path))?;
    }
    arguments.walk.around("rm", &arguments.store, &operands, false, |mode, troubles| {
        if arguments.partials {
            return arguments.remove_partials(&operands, troubles);
        }
        for store in 0..operands.walking.len() {
            arguments.remove(mode, &operands, store, troubles)?;
        }
        Ok(())
    })
}

impl Arguments {
    fn check(&self, path: &BytePath) -> Result<(), Failure> {
        if names::last(&path.path).is_empty() && !self.no_preserve_root {
            let shown = names::text(&path.given);
            return Err(Failure::usage(format!("{shown}: is the root of the store; --no-preserve-root with -r removes everything in it")));
        }
        Ok(())
    }

    fn remove_partials(&self, operands: &Operands, troubles: &mut Troubles) -> Result<(), Failure> {
        for (path, store) in &operands.paths {
            let session = &operands.walking[*store].session;
            partials::remove(session, &path.path, self.older_than, self.dry_run, troubles).or_else(|e| troubles.or_end(e))?;
        }
        Ok(())
    }

    /// Removes the operands that are in one store.
    fn remove(&self, mode: &TraceHandle, operands: &Operands, store: usize, troubles: &mut Troubles) -> Result<(), Failure> {
        let walking = &operands.walking[store];
        let mut tracer = mode.thread("main");
        let paths: Vec<&BytePath> = operands.paths.iter().filter(|(_, of)| *of == store).map(|(path, _)| path).collect();
        let places: Vec<Place> = paths.iter().map(|path| Place::at(&path.path)).collect();
        let known = walking.session.stat_many(&mut tracer, &places)?;
        let mut remover = Remover::new(&walking.session, mode, self.force, troubles);
        for (path, known) in paths.iter().zip(known) {
            match known {
                Err(error) if self.force && error.kind() == ErrorKind::NotFound => {}
                Err(error) => remover.troubles().of(&path.path, &error),
                Ok(known) if known.kind == FileKind::Directory && !self.recursive => {
                    let text = format!("{}: is a directory; -r removes it with everything in it", names::text(&path.path));
                    remover.troubles().say(text);
                }
                Ok(known) => self.operand(&mut tracer, path, &known, walking, &mut remover),
            }
        }
        remover.finish();
        Ok(())
    }

    fn operand(&self, tracer: &mut Tracer, path: &BytePath, known: &Attributes, walking: &Walking, remover: &mut Remover<'_>) {
        let is_directory = known.kind == FileKind::Directory;
        if is_directory {
            self.below(tracer, path, known.id, walking, remover);
        }
        // The root itself stays.
        if known.id != FileId::ROOT {
            let directory = is_directory.then_some(known.id);
            remover.remove(Name { parent: FileId::ROOT, name: path.path.clone(), path: path.path.clone(), directory });
        }
    }

    /// Everything in a directory.
    fn below(&self, tracer: &mut Tracer, path: &BytePath, id: FileId, walking: &Walking, remover: &mut Remover<'_>) {
        let mut tree = walking.walker.tree(&Place::of(id), TreeOptions { leaving: true, ..TreeOptions::default() });
        while let Some(next) = tree.next(tracer) {
            match next {
                Err(error) => {
                    remover.troubles().of(&path.path, &error);
                    remover.keep(id);
                    break;
                }
                Ok(next) => {
                    let path = names::join(&path.path, &next.path);
                    let is_directory = next.entry.kind == FileKind::Directory;
                    match next.visit {
                        // Removed by somebody else meanwhile: done.
                        Visit::Unreadable(error) if self.force && is_gone(&error) => {}
                        Visit::Unreadable(error) => {
                            remover.troubles().of(&path, &error);
                            remover.keep(next.entry.id);
                        }
                        Visit::Found if is_directory => {}
                        Visit::Found | Visit::Left => {
                            let directory = is_directory.then_some(next.entry.id);
                            remover.remove(Name { parent: next.parent, name: next.entry.name, path, directory });
                        }
                    }
                }
            }
        }
    }
}
