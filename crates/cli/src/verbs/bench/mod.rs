//! `thalweg bench`: measures the store's performance, with intervals.
//!
//! | study | measures |
//! |---|---|
//! | [`layout`] | the throughput of each layout on every node of a store, against the local disk and other systems |
//! | [`ls`] | the cost of a file in a listing, and of each of its datafiles, against other systems |
//! | [`commands`] | the run times of whole commands, pair by pair |
//!
//! `thalweg bench redraw` makes pages and plots again from a result. `thalweg bench node` is the process that a study starts on each
//! node; it is not for use by hand.

mod commands;
mod layout;
mod ls;
pub(super) mod results;

use crate::failure::Failure;
use std::io::BufReader;
use std::path::PathBuf;

/// Arguments of `thalweg bench`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

/// The study to run.
#[derive(clap::Subcommand)]
enum What {
    /// Write and read a part of a file from every node, with each layout, against the node's own disk
    Layout(Box<layout::Arguments>),
    /// List directories of many files, with each mechanism, at each round-trip time
    Ls(Box<ls::Arguments>),
    /// Run whole commands alternately, and compare their run times
    Commands(commands::Arguments),
    /// Draw the plots and pages of a result again
    Redraw {
        /// The directory with the results
        #[arg(value_name = "DIR")]
        out: PathBuf,
    },
    /// The process on a node of a study; it takes orders over a pipe
    #[command(hide = true)]
    Node,
}

/// Runs a study, or serves as a node's process.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.what {
        What::Node => thalweg_study::serve(BufReader::new(std::io::stdin()), std::io::stdout()).map_err(Failure::failed),
        What::Layout(arguments) => layout::run(arguments),
        What::Ls(arguments) => ls::run(arguments),
        What::Commands(arguments) => commands::run(arguments),
        What::Redraw { out } => results::redraw::<thalweg_study::layout::Document>(out)
            .or_else(|| results::redraw::<thalweg_study::ls::Document>(out))
            .unwrap_or_else(|| {
                let wanted = format!("{}: no result of a study here: expected layout.json or ls.json", out.display());
                Err(Failure::failed(wanted))
            }),
    }
}
