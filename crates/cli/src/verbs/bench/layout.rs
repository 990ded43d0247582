//! `thalweg bench layout`: measures the throughput of each layout on every node of a store, against the local disk and other systems.
//!
//! Results go into a directory: `raw.jsonl` has every measured time, and `--resume` continues from it; `layout.json`, `layout.md`,
//! `layout.html` and the plots (SVG) are made from it. `thalweg bench redraw` makes them again.

use super::results::{self, ProgressLine, Results};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::operand::StoreFlags;
use serde::Deserialize;
use std::path::PathBuf;
use thalweg_base::numbers;
use thalweg_report::study::{self, Picture};
use thalweg_store::config::{StoreAddress, StoreConfig};
use thalweg_study::layout::{self, Choice, Document, Mpi, PATTERNS, Peer, Via};

/// Arguments of `thalweg bench layout`.
#[derive(clap::Args)]
#[command(
    after_help = "The store's servers must be running, and each of its nodes must be reachable with --run-on and have this program.\n\
    Results: raw.jsonl (every time), layout.json, layout.md, layout.html. Peers are a TOML file of [[peers]] tables with name, node,\n\
    path, write and read; {file}, {bytes} and {node} are replaced by the file's name, its size and the node.\n\
    thalweg bench layout --store store.toml --sizes 16Mi,64Mi --repeat 5 --run-on 'ssh {node}'"
)]
pub(super) struct Arguments {
    /// Labels of the nodes, in the order of ranks (default: all nodes with servers)
    #[arg(long, value_name = "NODE,...", value_delimiter = ',')]
    nodes: Vec<String>,
    /// Prefix that starts a command on a node, like 'ssh {node}' (default: all nodes are this machine)
    #[arg(long, value_name = "WORDS")]
    run_on: Option<String>,
    /// Path of thalweg on the nodes (default: this program's)
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Sizes of the part that each node writes and reads
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', default_value = "1Mi,4Mi,16Mi,64Mi", value_parser = numbers::parse_positive_size)]
    sizes: Vec<u64>,
    /// Size of a transfer
    #[arg(long, value_name = "SIZE", default_value = "1Mi", value_parser = numbers::parse_positive_size)]
    transfer: u64,
    /// Transfers in flight in the client library
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = numbers::parse_count)]
    in_flight: u32,
    /// Repetitions, interleaved
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = numbers::parse_count)]
    repeat: u32,
    /// Series: local, local-cached, basic, stripe-64k, stripe-8m, stripe-16m, stripe-fitted, varstrip-local, twod (default: all)
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    series: Vec<String>,
    /// Interfaces through which the store is used
    #[arg(long, value_name = "VIA,...", value_delimiter = ',', value_enum, default_value = "library")]
    via: Vec<Through>,
    /// Further access patterns, or `all`: ior-segmented, ior-strided, ior-random, ior-file-per-process, beff-scatter, beff-shared,
    /// beff-separate, beff-segmented, beff-segmented-collective
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    patterns: Vec<String>,
    /// Size of each node's part in --patterns
    #[arg(long, value_name = "SIZE", default_value = "16Mi", value_parser = numbers::parse_positive_size)]
    pattern_size: u64,
    /// Command that starts the MPI program of the patterns (mpi/patterns), like 'mpiexec.{mpi} -n {ranks} patterns-{mpi}'
    #[arg(long, value_name = "WORDS", requires = "mpi_directory")]
    mpi_run: Option<String>,
    /// Directory under which its ranks find the mounts of their nodes
    #[arg(long, value_name = "DIR", requires = "mpi_run")]
    mpi_directory: Option<PathBuf>,
    /// Other systems to write the same parts to: a TOML file
    #[arg(long, value_name = "FILE")]
    peers: Option<PathBuf>,
    /// Known rate of a disk, for predictions (default: measured by the local series)
    #[arg(long, value_name = "RATE", value_parser = numbers::parse_rate)]
    disk_rate: Option<f64>,
    /// Known rate of a link, for predictions (default: measured)
    #[arg(long, value_name = "RATE", value_parser = numbers::parse_rate)]
    link_rate: Option<f64>,
    /// Check the local ceiling with bonnie++
    #[arg(long)]
    bonnie: bool,
    /// Do not record and explain the runs
    #[arg(long)]
    no_explain: bool,
    /// Description of this store, for the head of the page
    #[arg(long, value_name = "TEXT", default_value = "")]
    label: String,
    /// Directory for the results
    #[arg(long, value_name = "DIR", default_value = "layout-study")]
    out: PathBuf,
    /// Resume from the raw times in --out
    #[arg(long)]
    resume: bool,
    /// Print the result as JSON instead of Markdown
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// An interface to a store, as the flag names it.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Through {
    /// The client library
    Library,
    /// A mount on each node
    Mount,
    /// MPI-IO of MPICH, over the mounts
    Mpich,
    /// MPI-IO of Open MPI, over the mounts
    Openmpi,
}

impl Through {
    fn named(self) -> Via {
        match self {
            Through::Library => Via::Library,
            Through::Mount => Via::Mount,
            Through::Mpich => Via::Mpich,
            Through::Openmpi => Via::Openmpi,
        }
    }
}

/// Runs the study.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    let choice = choice(arguments)?;
    results::finish(layout::run(&choice, &ProgressLine(interrupt)), &choice.out, arguments.json)
}

impl Results for Document {
    const NAME: &'static str = "layout";
    const TITLE: &'static str = "What each layout gives";

    fn json(&self) -> String {
        Document::json(self)
    }

    fn markdown(&self) -> String {
        study::layout::markdown(self)
    }

    fn page(&self) -> String {
        study::layout::page(self)
    }

    fn pictures(&self) -> Vec<Picture> {
        study::layout::pictures(self)
    }
}

/// The file of `--peers`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Peers {
    peers: Vec<Peer>,
}

fn choice(arguments: &Arguments) -> Result<Choice, Failure> {
    let address = arguments.store.path("/")?.store;
    let nodes = match (&arguments.nodes, &address) {
        (named, _) if !named.is_empty() => named.clone(),
        (_, StoreAddress::File(path)) => nodes_of(&StoreConfig::read(path).map_err(Failure::failed)?),
        _ => return Err(Failure::usage("the nodes are unknown: give --nodes, or give the store as its store.toml, which names them")),
    };
    let peers = match &arguments.peers {
        None => Vec::new(),
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|e| Failure::failed(format!("{}: {e}", path.display())))?;
            toml::from_str::<Peers>(&text).map_err(|e| Failure::failed(format!("{}: {e}", path.display())))?.peers
        }
    };
    let program = match &arguments.program {
        Some(program) => program.clone(),
        None => std::env::current_exe().map_err(|e| Failure::failed(format!("this program's path: {e}")))?,
    };
    let all = || PATTERNS.iter().map(|p| p.name.to_owned()).collect();
    Ok(Choice {
        store: address.service().map_err(Failure::failed)?,
        credential: arguments.store.credential_file(&address)?,
        nodes,
        run_on: arguments.run_on.clone(),
        program,
        series: arguments.series.clone(),
        vias: arguments.via.iter().map(|via| via.named()).collect(),
        mpi: arguments.mpi_run.clone().zip(arguments.mpi_directory.clone()).map(|(run, directory)| Mpi { run, directory }),
        patterns: if arguments.patterns.iter().any(|p| p == "all") { all() } else { arguments.patterns.clone() },
        sizes: arguments.sizes.clone(),
        pattern_bytes: arguments.pattern_size,
        transfer_bytes: arguments.transfer,
        in_flight: arguments.in_flight,
        repeat: arguments.repeat as usize,
        peers,
        disk_bytes_per_s: arguments.disk_rate,
        link_bytes_per_s: arguments.link_rate,
        bonnie: arguments.bonnie,
        explain: !arguments.no_explain,
        timeout_s: arguments.store.timeout.as_secs_f64(),
        label: arguments.label.clone(),
        out: arguments.out.clone(),
        resume: arguments.resume,
    })
}

/// Returns the distinct nodes of a store's servers, in the order of the file.
fn nodes_of(config: &StoreConfig) -> Vec<String> {
    let mut nodes: Vec<String> = Vec::new();
    for server in &config.servers {
        if !nodes.contains(&server.node) {
            nodes.push(server.node.clone());
        }
    }
    nodes
}
