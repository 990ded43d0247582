//! `thalweg df`: how much room each target has, and what partial copies take of it.

use crate::operand::StoreFlags;
use crate::partials::Partials;
use crate::{failure::Failure, output, session::Session};
use serde::Serialize;
use thalweg_trace::numbers;

/// Arguments of `thalweg df`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The store: thal://HOST:PORT (default: that of --store or THALWEG_STORE)
    store_path: Option<String>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// The document of `--json`.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    targets: Vec<Target>,
    partials: Partials,
    /// Servers that did not answer, and why.
    silent: Vec<String>,
}

/// One target; sizes are absent when its server did not answer.
#[derive(Serialize)]
pub struct Target {
    /// Its number.
    pub target: u32,
    /// Its server's name.
    pub server: String,
    /// Its server's node label.
    pub node: String,
    /// Its directory there.
    pub directory: String,
    /// The size of the file system it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// What is free of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
}

/// Tells; fails when a server did not answer.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let path = arguments.store.path(arguments.store_path.as_deref().unwrap_or("/"))?;
    let session = Session::connect(&path.store, &arguments.store)?;
    let (targets, silent) = session.space();
    let partials = Partials::of(&session)?;
    if arguments.json {
        output::json(&Document { schema: "thalweg.df/1", targets, partials, silent: silent.clone() })?;
    } else {
        let bytes = |b: Option<u64>| b.map_or("?".to_owned(), numbers::size);
        let used = |t: &Target| match (t.total_bytes, t.free_bytes) {
            (Some(total @ 1..), Some(free)) => format!("{} %", 100 * u128::from(total.saturating_sub(free)) / u128::from(total)),
            _ => "?".to_owned(),
        };
        let rows: Vec<Vec<String>> = targets
            .iter()
            .map(|t| {
                vec![
                    t.server.clone(),
                    t.target.to_string(),
                    bytes(t.total_bytes),
                    bytes(t.free_bytes),
                    used(t),
                    t.node.clone(),
                    t.directory.clone(),
                ]
            })
            .collect();
        output::result(&output::table(&["server", "target", "size", "free", "used", "node", "directory"], &rows))?;
        partials.line().map_or(Ok(()), |line| output::line(&line))?;
    }
    match silent.is_empty() {
        true => Ok(()),
        false => Err(Failure::failed(silent.join("; "))),
    }
}
