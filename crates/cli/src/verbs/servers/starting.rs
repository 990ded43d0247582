//! What starting a store and starting one of its servers have in common.

use crate::{failure::Failure, interrupt::Interrupt, output};
use thalweg_store::start::{RunningStore, StartOptions};

/// What everybody who starts a server must know.
pub(super) const NO_CREDENTIALS: &str = "There are no credentials yet: anybody who reaches a port can read, change and remove everything in the store, \
    as any user. On loopback that means every user and program of this machine.";

/// Who may connect, and what to do about parts of a store that are not there, or are too old, or are damaged.
#[derive(clap::Args)]
pub(super) struct StartFlags {
    /// Listen on an address that other machines can reach: anybody who reaches a port can do anything there
    #[arg(long)]
    beyond_loopback: bool,
    /// Make missing targets and metadata anew, empty: what was in them is lost. (For a new store this is not needed)
    #[arg(long)]
    initialise: bool,
    /// Accept metadata that is older than what the targets were notified of: names are as they were then, and files that it does not know are lost.
    /// Datafiles of starts that never were go to TARGET/set-aside
    #[arg(long)]
    accept_older_metadata: bool,
    /// Drop what follows the damaged place of a metadata log: those names and attributes are lost. The damaged files are put aside
    #[arg(long)]
    drop_damaged_log: bool,
}

impl StartFlags {
    /// As options of a start.
    pub(super) fn options(&self) -> StartOptions {
        StartOptions {
            beyond_loopback: self.beyond_loopback,
            initialise: self.initialise,
            accept_older_metadata: self.accept_older_metadata,
            drop_damaged_log: self.drop_damaged_log,
        }
    }

    /// Says what it means that others can reach a server, if they can.
    pub(super) fn warn(&self) {
        if self.beyond_loopback {
            output::note(NO_CREDENTIALS);
        }
    }
}

/// Says what there is to say about a start, waits for a signal or until a server cannot go on, and stops everything.
pub(super) fn until_stopped(store: RunningStore, interrupt: &Interrupt) -> Result<(), Failure> {
    store.notes().iter().for_each(|note| output::note(note));
    let woken = interrupt.clone();
    store.on_failure(move || woken.wake());
    interrupt.wait();
    store.stop().map_err(Failure::failed)
}
