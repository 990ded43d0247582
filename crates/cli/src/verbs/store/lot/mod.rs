//! `thalweg lot`: reservations of space for an owner, with a size and a term.

mod change;
mod create;
mod ending;
mod report;

pub(super) use report::table;

use crate::failure::Failure;

/// Arguments of `thalweg lot`.
#[derive(clap::Args)]
#[command(after_help = "NAME is a lot in the store that --store or THALWEG_STORE names, or thal://HOST:PORT/NAME.\n\
    thalweg lot create run7 --size 100Gi --for 7d    reserve; then: cp --lot, mkdir --lot, mount --lot\n\
    thalweg lot show run7                            exit code 0: fine; 3: less than 10 % of its time or space, or less than an hour, is left; \
    4: it has expired\n\
    thalweg lot renew run7 --for 7d                  until a week from now\n\
    thalweg lot rm run7 --files                      with everything in it")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Reserve space: within its size and term, writes into the lot do not run out of space, whatever other users of the store do
    Create(create::Arguments),
    /// List the lots that your credential may see
    Ls(report::List),
    /// Show the space and time left in a lot, and its targets; the exit code says whether little is left
    Show(report::Show),
    /// Set the end of a lot's term
    Renew(change::Renew),
    /// Change a lot's size, but not below the space used
    Resize(change::Resize),
    /// Remove a lot
    Rm(change::Remove),
    /// Expire a lot when a process or a job ends
    #[command(hide = true)]
    EndWith(ending::Arguments),
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.what {
        What::Create(create) => create::run(create),
        What::Ls(list) => report::list(list),
        What::Show(show) => report::show(show),
        What::Renew(renew) => change::renew(renew),
        What::Resize(resize) => change::resize(resize),
        What::Rm(remove) => change::remove(remove),
        What::EndWith(ending) => ending::run(ending),
    }
}
