//! `thalweg lot`: space that is reserved for an owner, of a size and for a time.

mod change;
mod create;
mod ending;
mod report;

pub(super) use report::table;

use crate::failure::Failure;

/// Arguments of `thalweg lot`.
#[derive(clap::Args)]
#[command(after_help = "NAME is that of a lot of the store that --store or THALWEG_STORE names, or thal://HOST:PORT/NAME.\n\
    thalweg lot create run7 --size 100Gi --for 7d    reserve; then: cp --lot, mkdir --lot, mount --lot\n\
    thalweg lot show run7                            exit code 0: fine; 3: less than 10 % of its time or space, or under an hour, is left; \
    4: its time is over\n\
    thalweg lot renew run7 --for 7d                  until a week from now\n\
    thalweg lot rm run7 --files                      with everything in it")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Reserve space: within its size and time, a write into the lot does not run out of space, whatever other users of the store do
    Create(create::Arguments),
    /// List the lots that your credential may see
    Ls(report::List),
    /// Show what is left of a lot, and where it is; the exit code says whether that is little
    Show(report::Show),
    /// Let it end so long from now
    Renew(change::Renew),
    /// Give it another size, not below what is used
    Resize(change::Resize),
    /// Remove it
    Rm(change::Remove),
    /// End a lot when a process or a job ends
    #[command(hide = true)]
    EndWith(ending::Arguments),
}

/// Does it.
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
