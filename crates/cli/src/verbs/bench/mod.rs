//! `thalweg bench`: what the store gives, measured so that it can be believed.
//!
//! | study | what it answers |
//! |---|---|
//! | [`layout`] | what each layout gives every node of a store, beside the local disk and other systems |
//! | [`ls`] | what a file costs in a listing, and what each of its datafiles adds, beside other systems |
//! | [`commands`] | how long whole commands take, one beside the other |
//!
//! `thalweg bench redraw` makes pages and plots again from a result. `thalweg bench node` is the process that a study starts on each
//! node, and is of no use by hand.

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

/// What to measure.
#[derive(clap::Subcommand)]
enum What {
    /// Every node writes and reads its part of a file, with each layout, against its own disk
    Layout(Box<layout::Arguments>),
    /// Directories of many files are listed, with each mechanism, at each round trip
    Ls(Box<ls::Arguments>),
    /// Whole commands are run in turn, until it is known how many times as fast one is as another
    Commands(commands::Arguments),
    /// Draw the plots and pages of a result again
    Redraw {
        /// The directory of results
        #[arg(value_name = "DIR")]
        out: PathBuf,
    },
    /// The process on a node of a study; it gets its orders over a pipe
    #[command(hide = true)]
    Node,
}

/// Measures, or serves as a node's process.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.what {
        What::Node => thalweg_study::serve(BufReader::new(std::io::stdin()), std::io::stdout()).map_err(Failure::failed),
        What::Layout(arguments) => layout::run(arguments),
        What::Ls(arguments) => ls::run(arguments),
        What::Commands(arguments) => commands::run(arguments),
        What::Redraw { out } => results::redraw::<thalweg_study::layout::Document>(out)
            .or_else(|| results::redraw::<thalweg_study::ls::Document>(out))
            .unwrap_or_else(|| {
                let wanted = format!("{}: no result of a study in it: expected layout.json or ls.json", out.display());
                Err(Failure::failed(wanted))
            }),
    }
}
