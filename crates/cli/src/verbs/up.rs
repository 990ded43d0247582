//! `thalweg up DIR...`: a whole store in this process, until SIGINT or SIGTERM.
//!
//! The first line on standard output is the store's address and nothing else, so that a script can read it and go on.

use crate::{failure::Failure, interrupt::Interrupt, output, size};
use std::path::PathBuf;
use thalweg_store::start::{self, RunningStore, StartOptions, UpOptions};

/// Arguments of `thalweg up`.
#[derive(clap::Args)]
#[command(after_help = crate::output::NO_CREDENTIALS)]
pub struct Arguments {
    /// One I/O server for each directory; or a single directory, divided by --servers
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// I/O servers in a single directory, each in a directory below it
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = size::count)]
    servers: Option<u32>,
    /// Targets of each server, each in a directory below it
    #[arg(long, value_name = "M", allow_hyphen_values = true, value_parser = size::count)]
    targets: Option<u32>,
    /// The metadata service's port (default: the one it had, or any that is free)
    #[arg(long, value_name = "P")]
    port: Option<u16>,
    /// The address to listen on
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
    /// Listen on an address that others than this machine can reach: whoever reaches a port can do everything there
    #[arg(long)]
    beyond_loopback: bool,
    #[command(flatten)]
    missing: Missing,
    /// The label of this machine, for --place local (default: the host name)
    #[arg(long, env = thalweg_trace::machine::NODE_VARIABLE, value_name = "LABEL")]
    node: Option<String>,
    /// Print the address and nothing else
    #[arg(long)]
    print_address: bool,
}

/// What to do about parts of a store that are not there, or are too old, or are damaged.
#[derive(clap::Args)]
pub struct Missing {
    /// Make targets and metadata that are not there, anew and empty: what was in them is lost. (A new store's are made without being asked)
    #[arg(long)]
    initialise: bool,
    /// Go on with metadata that is older than the datafiles: files that it does not know are lost
    #[arg(long)]
    accept_older_metadata: bool,
    /// Where the metadata's log is damaged, go on without what comes after: those names and attributes are lost. The damaged files are put aside
    #[arg(long)]
    drop_damaged_log: bool,
}

impl Missing {
    /// As options of a start.
    pub fn options(&self, beyond_loopback: bool) -> StartOptions {
        StartOptions {
            beyond_loopback,
            initialise: self.initialise,
            accept_older_metadata: self.accept_older_metadata,
            drop_damaged_log: self.drop_damaged_log,
        }
    }
}

/// Says what there is to say about a start, waits for a signal or until a server cannot go on, and stops everything.
pub fn until_stopped(store: RunningStore, interrupt: &Interrupt) -> Result<(), Failure> {
    store.notes().iter().for_each(|note| output::note(note));
    let woken = interrupt.clone();
    store.on_failure(move || woken.wake());
    interrupt.wait();
    store.stop().map_err(Failure::failed)
}

/// Starts the store, says where it is, and stops it when asked to.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    let options = UpOptions {
        servers: arguments.servers.map(|n| n as usize),
        targets: arguments.targets.map(|n| n as usize),
        host: arguments.host.clone(),
        port: arguments.port,
        node: arguments.node.clone().filter(|n| !n.is_empty()),
        start: arguments.missing.options(arguments.beyond_loopback),
        ..UpOptions::new(&arguments.directories)
    };
    let store = start::up(&options).map_err(Failure::failed)?;
    if arguments.beyond_loopback {
        output::note(output::NO_CREDENTIALS);
    }
    let address = store.address();
    output::line(&address.to_string())?;
    if !arguments.print_address {
        let config = store.config();
        let targets: usize = config.servers.iter().map(|s| s.targets.len()).sum();
        output::note(&format!(
            "a store of {} I/O servers and {targets} targets, described by {}",
            config.servers.len(),
            config.path.display()
        ));
        output::note(&format!("  export THALWEG_STORE={address}    then: thalweg ls, thalweg cp FILE thal:/NAME, ..."));
        output::note("  Ctrl-C writes everything out and takes it down; the files stay, and the same command brings them back");
    }
    until_stopped(store, &interrupt)
}
