//! The raw stream: a file over loopback TCP into files, with no protocol. What a copy is measured against.
//!
//! **In:** a source file and a directory. **Out:** one JSON line per run on stdout: the variant, bytes, seconds, GiB/s.
//! **Never:** anything a real copy would need beyond the bytes (no names, no requests, no acknowledgements, no recovery).
//!
//! The source is cut into units; unit `i` belongs to connection `i % connections`, and the receiver of each connection
//! appends its units to a file of its own, made anew for each run and removed after it. Sending and receiving are
//! threads, one for each connection and end, the receivers in a process of their own. The clock runs from before the
//! first connect until the receivers have said that everything is written (with `--sync`: is durable).
//!
//! With checksums both ends make the CRC-32C of every unit, and the run fails if they differ. The fastest variant is
//! the ceiling; `--list` names them, `--all` runs every one in interleaved rounds and ends with their medians.

mod receive;
mod run;
mod send;
mod unit;
mod variant;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::run::Stream;
use crate::unit::Method;
use crate::variant::Variant;

/// Streams a file over loopback into files, with no protocol, and prints how fast.
#[derive(Parser)]
#[command(name = "thalweg-raw")]
struct Options {
    /// The file to stream; it should be in the page cache
    #[arg(required_unless_present = "list")]
    source: Option<PathBuf>,
    /// Directory in which the target files are made and removed
    #[arg(required_unless_present = "list")]
    directory: Option<PathBuf>,
    /// How both ends work, as --list names it; repeat for several
    #[arg(long = "variant", value_name = "NAME", default_value = "sendfile-splice")]
    variants: Vec<Variant>,
    /// All variants, with and without checksums
    #[arg(long, conflicts_with = "variants")]
    all: bool,
    /// Print the variants' names and end
    #[arg(long)]
    list: bool,
    /// Parallel connections; repeat for several
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u32).range(1..=64))]
    connections: Vec<u32>,
    /// Bytes of a unit; repeat for several
    #[arg(long, value_name = "BYTES", default_value = "1048576", value_parser = clap::value_parser!(u64).range(4096..=1 << 30))]
    unit: Vec<u64>,
    /// Bytes moved in one call by an end that holds them; repeat for several
    #[arg(long, value_name = "BYTES", default_value = "131072", value_parser = clap::value_parser!(u64).range(4096..=1 << 30))]
    part: Vec<u64>,
    /// How often each is run, in interleaved rounds
    #[arg(long, value_name = "N", default_value_t = 1)]
    rounds: u32,
    /// fdatasync the targets before the clock stops
    #[arg(long)]
    sync: bool,
    /// Leave the target files, so that removing them is not in the time of the whole command
    #[arg(long)]
    keep: bool,
    /// Receivers as threads of the sending process
    #[arg(long)]
    one_process: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    if options.list {
        Variant::all().iter().for_each(|variant| println!("{variant}"));
        return ExitCode::SUCCESS;
    }
    match stream_all(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("thalweg-raw: {error}");
            ExitCode::FAILURE
        }
    }
}

fn stream_all(options: &Options) -> io::Result<()> {
    let (Some(source), Some(directory)) = (&options.source, &options.directory) else { unreachable!("clap requires both") };
    let variants = if options.all { Variant::all() } else { options.variants.clone() };
    let mut streams = Vec::new();
    for &variant in &variants {
        for &connections in &options.connections {
            for &unit_bytes in &options.unit {
                for &part_bytes in &options.part {
                    let (source, directory) = (source.clone(), directory.clone());
                    let (sync, keep, one_process) = (options.sync, options.keep, options.one_process);
                    let method = Method { variant, part_bytes: part_bytes as usize };
                    streams.push((Stream { source, directory, method, connections, unit_bytes, sync, keep, one_process }, Vec::new()));
                }
            }
        }
    }
    for _ in 0..options.rounds {
        for (stream, rates) in &mut streams {
            let result = stream.run()?;
            rates.push(result.gib_per_s());
            writeln!(io::stdout(), "{}", stream.json(&result))?;
        }
    }
    if options.rounds > 1 {
        streams.sort_by(|a, b| median(&b.1).total_cmp(&median(&a.1)));
        for (stream, rates) in &streams {
            eprintln!("{:6.2} GiB/s  {}", median(rates), stream.name());
        }
    }
    Ok(())
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}
