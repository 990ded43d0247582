//! `thalweg cat`: writes files to standard output.

use crate::interrupt::Interrupt;
use crate::operand::StoreFlags;
use crate::{failure::Failure, session::Session};
use thalweg_client::copy::{self, CopyJob, CopyObserver, Sink, Source};
use thalweg_wire::ErrorKind;

/// Arguments of `thalweg cat`.
#[derive(clap::Args)]
#[command(after_help = "If standard output is a regular file (> but not >>), holes in the files are kept as holes.")]
pub(crate) struct Arguments {
    /// The files: thal://HOST:PORT/path, or paths with --store
    #[arg(required = true)]
    paths: Vec<String>,
    #[command(flatten)]
    store: StoreFlags,
}

struct Stop<'a>(&'a Interrupt);

impl CopyObserver for Stop<'_> {
    fn cancelled(&self) -> bool {
        self.0.is_raised()
    }
}

/// Writes the files one after the other.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    for path in &arguments.paths {
        let path = arguments.store.path(path)?;
        let session = Session::connect(&path.store, &arguments.store)?;
        let job = CopyJob::new(Source::Store(session.store(), path.path), Sink::Stdout);
        copy::run(&job, &Stop(&interrupt)).map_err(|e| match e.kind() {
            ErrorKind::Cancelled => Failure::Interrupted("interrupted".to_owned()),
            ErrorKind::Reset if e.server().is_none() => Failure::NobodyReads,
            _ => Failure::failed(e),
        })?;
    }
    Ok(())
}
