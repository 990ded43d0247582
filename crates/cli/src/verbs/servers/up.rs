//! `thalweg up DIR...`: runs a whole store in this process until SIGINT or SIGTERM.
//!
//! The first line on standard output is the store's address alone, for scripts.

use super::starting::{self, StartFlags, until_stopped};
use crate::{emulation, failure::Failure, interrupt::Interrupt, output, scrubbed};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use thalweg_base::numbers;
use thalweg_client::DataClient;
use thalweg_client::metadata::MetadataClient;
use thalweg_store::config::StoreAddress;
use thalweg_store::start::{self, RunningStore, StartOptions, UpOptions};
use thalweg_trace::Tracer;
use thalweg_wire::Connect;
use thalweg_wire::emulate::Emulation;

/// Arguments of `thalweg up`.
#[derive(clap::Args)]
#[command(after_help = starting::TRUST)]
pub(crate) struct Arguments {
    /// A directory for each I/O server; or, with --servers, one directory for all
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// Number of I/O servers, each in a subdirectory of the single DIR
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = numbers::parse_count)]
    servers: Option<u32>,
    /// Number of targets of each server, each in a subdirectory
    #[arg(long, value_name = "M", allow_hyphen_values = true, value_parser = numbers::parse_count)]
    targets: Option<u32>,
    /// The port of the metadata service (default: the port used before, or a free one)
    #[arg(long, value_name = "P")]
    port: Option<u16>,
    /// The address to listen on
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    host: String,
    #[command(flatten)]
    start: StartFlags,
    /// Scrub the store whenever its last scrub is so long ago, while it runs (`thalweg scrub`)
    #[arg(long, value_name = "INTERVAL", value_parser = numbers::parse_age)]
    scrub: Option<Duration>,
    /// Maximum bytes per second that these scrubs read
    #[arg(long, value_name = "RATE", default_value = "50Mi", value_parser = numbers::parse_rate, requires = "scrub")]
    scrub_rate: f64,
    /// Keep names and attributes in this PostgreSQL database, from the first start on (default: in the first DIR). Its password comes from
    /// PGPASSWORD, database.password beside store.toml (mode 600), or ~/.pgpass
    #[arg(long, value_name = "postgresql://...")]
    metadata_database: Option<String>,
    /// Emulate other disks and links, to try a layout before buying hardware: disk rate and seek time of every target, the disk rate of one
    /// target, the link rate of each server in each direction, and the round-trip time. Anything left out is not emulated. Every
    /// verb that shows the store mentions it
    #[arg(long, value_name = "disk=RATE,disk.TARGET=RATE,seek=TIME,link=RATE,rtt=TIME", value_parser = Emulation::parse, conflicts_with = "beyond_loopback")]
    emulate: Option<Emulation>,
    /// The label of this machine, for --place local (default: the host name)
    #[arg(long, env = thalweg_base::machine::NODE_VARIABLE, value_name = "LABEL")]
    node: Option<String>,
    /// Print only the address
    #[arg(long)]
    print_address: bool,
}

/// Starts the store, prints its address, and stops it on a signal.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    starting::close_to_others();
    let interrupt = Interrupt::listen()?;
    let options = UpOptions {
        servers: arguments.servers.map(|n| n as usize),
        targets: arguments.targets.map(|n| n as usize),
        host: arguments.host.clone(),
        port: arguments.port,
        node: arguments.node.clone().filter(|n| !n.is_empty()),
        database: arguments.metadata_database.clone(),
        start: StartOptions { emulated: arguments.emulate, ..arguments.start.options() },
        ..UpOptions::new(&arguments.directories)
    };
    let store = start::up(&options).map_err(Failure::failed)?;
    arguments.start.warn(&store);
    let address = store.address();
    output::line(&address.to_string())?;
    if let Some(emulated) = &arguments.emulate {
        output::note(&emulation::of_store(emulated));
    }
    if !arguments.print_address {
        let config = store.config();
        let targets: usize = config.servers.iter().map(|s| s.targets.len()).sum();
        output::note(&format!(
            "a store of {} I/O servers and {targets} targets, described by {}",
            config.servers.len(),
            config.path.display()
        ));
        output::note(&format!("  export THALWEG_STORE={address}    then: thalweg ls, thalweg cp FILE thal:/NAME, ..."));
        output::note("  Ctrl-C flushes everything and stops the store; the files stay, and the same command starts it again");
    }
    let scrubbing = match arguments.scrub {
        Some(every) => Some(scrub_every(&store, every, arguments.scrub_rate as u64, &interrupt)?),
        None => None,
    };
    let stopped = until_stopped(store, &interrupt);
    // It may have ended because a server failed.
    interrupt.raise();
    scrubbing.map_or(Ok(()), |scrubbing| scrubbing.join().map_err(|_| Failure::failed("the thread that scrubs panicked: a bug")))?;
    stopped
}

/// Starts a thread that scrubs the store.
fn scrub_every(store: &RunningStore, every: Duration, bytes_per_second: u64, interrupt: &Interrupt) -> Result<JoinHandle<()>, Failure> {
    let address = StoreAddress::File(store.config().path.clone());
    let options = Connect { credentials: address.credentials(None).map_err(Failure::failed)?, ..Connect::default() };
    let service = address.service().map_err(Failure::failed)?;
    let names = MetadataClient::connect(&mut Tracer::off(), &service, &options).map_err(Failure::failed)?;
    let map = names.map();
    let of_data = Connect { store: Some(map.store), ..options.clone() };
    let data = DataClient::of_store(map.as_ref().clone(), &of_data, Arc::new(names.clone()));
    let interrupt = interrupt.clone();
    let work = move || scrubbed::scrub_every((&names, &data), (&service, &options), every, bytes_per_second, &interrupt);
    std::thread::Builder::new().name("scrub".to_owned()).spawn(work).map_err(|e| Failure::failed(format!("starting a thread: {e}")))
}
