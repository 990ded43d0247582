//! `thalweg layout show` and `thalweg layout map`: shows a file's layout, and the location of each range. (`layout plan` is in its own
//! file.)

mod plan;

use crate::layout_flags::LayoutFlags;
use crate::operand::StoreFlags;
use crate::{failure::Failure, lots, output, session::Session};
use serde::Serialize;
use thalweg_base::numbers;
use thalweg_layout::Layout;
use thalweg_wire::protocol::metadata::{FileLayout, StoreMap};

/// Arguments of `thalweg layout`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Show the distribution and its parameters, and the server, target and size of each datafile
    Show(Show),
    /// Show the datafile, target and physical offset of each range of a file
    Map(Map),
    /// Compute, from the recording of a job, the layout that keeps each writer's bytes on its own node
    Plan(Box<plan::Arguments>),
}

#[derive(clap::Args)]
struct Show {
    /// The file: thal://HOST:PORT/path, or a path with --store
    file: String,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreFlags,
}

#[derive(clap::Args)]
struct Map {
    /// The file: thal://HOST:PORT/path, or a path with --store (default: the layout that --layout and --datafiles would give)
    #[arg(required_unless_present_all = ["layout", "datafiles", "size"])]
    file: Option<String>,
    /// Start of the range
    #[arg(long, value_name = "SIZE", default_value = "0", allow_hyphen_values = true, value_parser = numbers::parse_size)]
    offset: u64,
    /// Length of the range (default: to the end of the file)
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = numbers::parse_positive_size)]
    size: Option<u64>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    layout: LayoutFlags,
    #[command(flatten)]
    store: StoreFlags,
}

/// Maximum number of rows printed; beyond it, the command asks for a smaller range.
const MOST_ROWS: usize = 1_000_000;

/// The document of `layout show --json`.
#[derive(Serialize)]
struct Shown {
    schema: &'static str,
    path: String,
    distribution: String,
    parameters: std::collections::BTreeMap<String, String>,
    size_bytes: u64,
    /// Its lot. Absent if it is in none.
    #[serde(skip_serializing_if = "Option::is_none")]
    lot: Option<String>,
    datafiles: Vec<Datafile>,
}

#[derive(Serialize)]
struct Datafile {
    datafile: u32,
    target: u32,
    /// Absent if the store no longer has this target.
    server: Option<String>,
    directory: Option<String>,
    size_bytes: u64,
}

/// The document of `layout map --json`.
#[derive(Serialize)]
struct Mapped {
    schema: &'static str,
    distribution: String,
    ranges: Vec<Range>,
}

#[derive(Serialize)]
struct Range {
    offset_bytes: u64,
    size_bytes: u64,
    datafile: u32,
    /// Absent for a layout without a file.
    target: Option<u32>,
    physical_offset_bytes: u64,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.what {
        What::Show(show) => run_show(show),
        What::Map(map) => run_map(map),
        What::Plan(plan) => plan::run(plan),
    }
}

fn run_show(arguments: &Show) -> Result<(), Failure> {
    let path = arguments.store.path(&arguments.file)?;
    let session = Session::connect(&path.store, &arguments.store)?;
    let file = session.file_layout(&path)?;
    let sizes = session.datafile_sizes(&path)?;
    let layout = made(&file)?;
    let map = session.map();
    let spec = layout.spec();
    let shown = Shown {
        schema: "thalweg.layout-show/1",
        path: path.path,
        size_bytes: layout_size(&layout, &sizes)?,
        lot: file.lot.map(|id| lots::name_of(&session, id)),
        distribution: spec.name,
        parameters: spec.parameters.into_iter().collect(),
        datafiles: (0_u32..).zip(&file.targets).zip(sizes).map(|((i, target), size)| datafile(&map, i, target.0, size)).collect(),
    };
    if arguments.json {
        return output::json(&shown);
    }
    let mut text = format!("{}: {} ({} bytes)\n{}", shown.path, numbers::size(shown.size_bytes), shown.size_bytes, shown.distribution);
    for (name, value) in &shown.parameters {
        text.push_str(&format!(", {name} {value}"));
    }
    if let Some(lot) = &shown.lot {
        text.push_str(&format!("\nin lot {lot}"));
    }
    text.push_str("\n\n");
    let rows: Vec<Vec<String>> = shown
        .datafiles
        .iter()
        .map(|d| {
            let unknown = || "?".to_owned();
            vec![
                d.server.clone().unwrap_or_else(unknown),
                d.datafile.to_string(),
                d.target.to_string(),
                d.size_bytes.to_string(),
                d.directory.clone().unwrap_or_else(unknown),
            ]
        })
        .collect();
    text.push_str(&output::table(&["server", "datafile", "target", "bytes", "directory"], &rows));
    output::result(&text)
}

fn datafile(map: &StoreMap, datafile: u32, target: u32, size_bytes: u64) -> Datafile {
    let known = map.target(thalweg_wire::protocol::io::TargetId(target));
    Datafile {
        datafile,
        target,
        server: known.map(|(_, server)| server.name.clone()),
        directory: known.map(|(entry, _)| entry.directory.clone()),
        size_bytes,
    }
}

fn run_map(arguments: &Map) -> Result<(), Failure> {
    let (layout, targets, end) = match &arguments.file {
        Some(file) => {
            let path = arguments.store.path(file)?;
            let session = Session::connect(&path.store, &arguments.store)?;
            let file = session.file_layout(&path)?;
            let layout = made(&file)?;
            let end = layout_size(&layout, &session.datafile_sizes(&path)?)?;
            (layout, Some(file.targets), end)
        }
        None => {
            let datafiles = arguments.layout.datafiles().unwrap_or(1);
            let spec = arguments.layout.spec()?.unwrap_or_default();
            (Layout::new(&spec, Some(datafiles), datafiles).map_err(Failure::failed)?, None, thalweg_layout::MAX_OFFSET)
        }
    };
    let size_bytes = arguments.size.unwrap_or(end.saturating_sub(arguments.offset));
    let range = |piece: thalweg_layout::Piece| Range {
        offset_bytes: piece.logical_offset,
        size_bytes: piece.length,
        datafile: piece.datafile,
        target: targets.as_ref().and_then(|t| t.get(piece.datafile as usize)).map(|t| t.0),
        physical_offset_bytes: piece.physical_offset,
    };
    let ranges: Vec<Range> = layout.pieces(arguments.offset, size_bytes).take(MOST_ROWS + 1).map(range).collect();
    if ranges.len() > MOST_ROWS {
        return Err(Failure::failed(format!("more than {MOST_ROWS} ranges: choose a smaller range with --offset and --size")));
    }
    if arguments.json {
        return output::json(&Mapped { schema: "thalweg.layout-map/1", distribution: layout.spec().to_string(), ranges });
    }
    let rows: Vec<Vec<String>> = ranges
        .iter()
        .map(|r| {
            let target = r.target.map_or("-".to_owned(), |t| t.to_string());
            vec![r.offset_bytes.to_string(), r.size_bytes.to_string(), r.datafile.to_string(), target, r.physical_offset_bytes.to_string()]
        })
        .collect();
    output::result(&output::table(&["offset", "bytes", "datafile", "target", "physical offset"], &rows))
}

fn made(file: &FileLayout) -> Result<Layout, Failure> {
    let datafiles = u32::try_from(file.targets.len()).unwrap_or(u32::MAX);
    Layout::new(&file.spec, Some(datafiles), datafiles).map_err(Failure::failed)
}

fn layout_size(layout: &Layout, datafile_sizes: &[u64]) -> Result<u64, Failure> {
    use thalweg_layout::Distribution;
    layout.logical_file_size(datafile_sizes).map_err(Failure::failed)
}
