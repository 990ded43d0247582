//! What starting a store and starting one of its servers have in common.

use crate::session::IN_CLEAR;
use crate::{failure::Failure, interrupt::Interrupt, output};
use thalweg_store::start::{RunningStore, StartOptions};

/// What everybody who starts a server must know.
pub(super) const TRUST: &str = "The store opens to its credential alone: store.credential beside store.toml, made with the store, and a copy among those \
    of the user who starts it. Beyond loopback everything is encrypted. `thalweg credential create NAME` makes one for somebody else.";
/// Who may connect, and what to do about parts of a store that are not there, or are too old, or are damaged.
#[derive(clap::Args)]
pub(super) struct StartFlags {
    /// Listen on an address that other machines can reach
    #[arg(long)]
    beyond_loopback: bool,
    /// Do not encrypt beyond loopback, on a network that is trusted. (The credential is proven all the same)
    #[arg(long)]
    plain: bool,
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

/// Keeps what this process makes from other users, whatever the umask. (The store gives its files their modes when it makes them; this is for what a
/// library makes beneath it.)
pub(super) fn close_to_others() {
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
}

impl StartFlags {
    /// As options of a start.
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

    /// Says that bytes are in clear where others can reach a server, if they are.
    pub(super) fn warn(&self, store: &RunningStore) {
        if self.beyond_loopback && store.config().plain {
            output::note(IN_CLEAR);
        }
    }
}

/// Says what there is to say about a start, waits for a signal or until a server cannot go on, and stops everything.
pub(super) fn until_stopped(store: RunningStore, interrupt: &Interrupt) -> Result<(), Failure> {
    store.notes().iter().for_each(|note| output::note(note));
    store.gate().on_refused(output::note);
    let woken = interrupt.clone();
    store.on_failure(move || woken.wake());
    interrupt.wait();
    store.stop().map_err(Failure::failed)
}
