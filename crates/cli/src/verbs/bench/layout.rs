//! `thalweg bench layout`: what each layout gives every node of a store, beside the local disk and other systems.
//!
//! Results go into a directory: `raw.jsonl` has every time as it was taken, and is what `--resume` goes on from; `layout.json`,
//! `layout.md`, `layout.html` and the plots (SVG) are made from it, again with `thalweg bench redraw`.

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
    after_help = "The store's servers must run, and each of its nodes must be reachable by the words of --run-on, with this program on it.\n\
    Results: raw.jsonl (every time), layout.json, layout.md, layout.html. Peers are a TOML file of [[peers]] tables with name, node,\n\
    path, write and read; {file}, {bytes} and {node} stand for what they say.\n\
    thalweg bench layout --store store.toml --sizes 16Mi,64Mi --repeat 5 --run-on 'ssh {node}'"
)]
pub(super) struct Arguments {
    /// Labels of the nodes, in the order of ranks (default: all that servers are on)
    #[arg(long, value_name = "NODE,...", value_delimiter = ',')]
    nodes: Vec<String>,
    /// How a command is started on a node, like 'ssh {node}' (default: all nodes are this machine)
    #[arg(long, value_name = "WORDS")]
    run_on: Option<String>,
    /// The thalweg of the nodes (default: this one)
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Sizes of a node's part
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', default_value = "1Mi,4Mi,16Mi,64Mi", value_parser = numbers::parse_positive_size)]
    sizes: Vec<u64>,
    /// Bytes of a transfer
    #[arg(long, value_name = "SIZE", default_value = "1Mi", value_parser = numbers::parse_positive_size)]
    transfer: u64,
    /// Transfers in flight through the client library
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = numbers::parse_count)]
    in_flight: u32,
    /// Repetitions, interleaved
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = numbers::parse_count)]
    repeat: u32,
    /// Series: local, local-cached, basic, stripe-64k, stripe-8m, stripe-16m, stripe-fitted, varstrip-local, twod (default: all)
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    series: Vec<String>,
    /// Through what the store is used
    #[arg(long, value_name = "VIA,...", value_delimiter = ',', value_enum, default_value = "library")]
    via: Vec<Through>,
    /// Further patterns of access, or `all`: ior-segmented, ior-strided, ior-random, ior-file-per-process, beff-scatter, beff-shared,
    /// beff-separate, beff-segmented, beff-segmented-collective
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    patterns: Vec<String>,
    /// The part's size in those
    #[arg(long, value_name = "SIZE", default_value = "16Mi", value_parser = numbers::parse_positive_size)]
    pattern_size: u64,
    /// What starts an MPI job, up to the program of the patterns (mpi/patterns), like 'mpiexec.{mpi} -n {ranks} patterns-{mpi}'
    #[arg(long, value_name = "WORDS", requires = "mpi_directory")]
    mpi_run: Option<String>,
    /// Where its ranks see the mounts of their nodes
    #[arg(long, value_name = "DIR", requires = "mpi_run")]
    mpi_directory: Option<PathBuf>,
    /// Other systems that the same parts are written to: a TOML file
    #[arg(long, value_name = "FILE")]
    peers: Option<PathBuf>,
    /// What a disk is known to give, for predictions (default: what the local series finds)
    #[arg(long, value_name = "RATE", value_parser = numbers::parse_rate)]
    disk_rate: Option<f64>,
    /// What a link is known to carry (default: measured)
    #[arg(long, value_name = "RATE", value_parser = numbers::parse_rate)]
    link_rate: Option<f64>,
    /// Have bonnie++ check the local ceiling
    #[arg(long)]
    bonnie: bool,
    /// Do not record and explain the runs
    #[arg(long)]
    no_explain: bool,
    /// What this store is, for the page's first lines
    #[arg(long, value_name = "TEXT", default_value = "")]
    label: String,
    /// Where results go
    #[arg(long, value_name = "DIR", default_value = "layout-study")]
    out: PathBuf,
    /// Go on with the raw times in --out
    #[arg(long)]
    resume: bool,
    /// Print the result as JSON instead of Markdown
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// Through what a store is used, as the flag says it.
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

/// Measures.
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

/// The file of peers.
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
        _ => return Err(Failure::usage("which nodes? Give --nodes, or the store as its store.toml, which names them")),
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

/// The nodes that a store's servers are on, each once, in the order of the file.
fn nodes_of(config: &StoreConfig) -> Vec<String> {
    let mut nodes: Vec<String> = Vec::new();
    for server in &config.servers {
        if !nodes.contains(&server.node) {
            nodes.push(server.node.clone());
        }
    }
    nodes
}
