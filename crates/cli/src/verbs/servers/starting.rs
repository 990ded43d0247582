//! Shared by `up` and `serve`: flags, notes and waiting for a signal.

use crate::session::IN_CLEAR;
use crate::{failure::Failure, interrupt::Interrupt, output};
use thalweg_store::start::{RunningStore, StartOptions};

/// Help on credentials for the verbs that start servers.
pub(super) const TRUST: &str = "Clients need a credential: store.credential beside store.toml, made with the store, and copied to \
    the credentials of the user who starts it. Traffic beyond loopback is encrypted. `thalweg credential create NAME` makes one for \
    another user.";
/// Flags for who may connect, and for starting with missing, old or damaged parts of a store.
#[derive(clap::Args)]
pub(super) struct StartFlags {
    /// Listen on an address that other machines can reach
    #[arg(long)]
    beyond_loopback: bool,
    /// Do not encrypt beyond loopback, on a trusted network (credentials are still checked)
    #[arg(long)]
    plain: bool,
    /// Create missing targets and metadata again, empty: what they contained is lost (not needed for a new store)
    #[arg(long)]
    initialise: bool,
    /// Accept metadata older than what the targets have witnessed (a restored backup): names are as of that time, and newer files are lost.
    /// Datafiles that this metadata does not know are moved to TARGET/set-aside
    #[arg(long)]
    accept_older_metadata: bool,
    /// Drop the entries of the metadata log after its damaged place: the names and attributes in them are lost. The damaged files are set
    /// aside
    #[arg(long)]
    drop_damaged_log: bool,
}

/// Sets a umask that keeps new files private, whatever the caller's umask. The store sets modes of its own files explicitly; this is for
/// files that a library makes.
pub(super) fn close_to_others() {
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

impl StartFlags {
    /// Converts the flags to start options.
    pub(super) fn options(&self) -> StartOptions {
        StartOptions {
            beyond_loopback: self.beyond_loopback,
            plain: self.plain,
            initialise: self.initialise,
            accept_older_metadata: self.accept_older_metadata,
            drop_damaged_log: self.drop_damaged_log,
            emulated: None,
            take_over: None,
        }
    }

    /// Prints a warning if a server is reachable by others without encryption.
    pub(super) fn warn(&self, store: &RunningStore) {
        if self.beyond_loopback && store.config().plain {
            output::note(IN_CLEAR);
        }
    }
}

/// Prints the notes on the start, waits for a signal or a server's failure, and stops everything.
pub(super) fn until_stopped(store: RunningStore, interrupt: &Interrupt) -> Result<(), Failure> {
    store.notes().iter().for_each(|note| output::note(note));
    store.gate().on_refused(output::note);
    let woken = interrupt.clone();
    store.on_failure(move || woken.wake());
    interrupt.wait();
    store.stop().map_err(Failure::failed)
}
