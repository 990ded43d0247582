//! `thalweg stat`: shows the attributes of a file or directory.

use crate::operand::StoreFlags;
use crate::{failure::Failure, listing, lots, names, output, session::Session};
use serde::Serialize;
use std::ffi::OsString;
use thalweg_base::numbers;
use thalweg_wire::protocol::metadata::FileKind;

/// Arguments of `thalweg stat`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The file or directory: thal://HOST:PORT/path, or a path with --store
    path: OsString,
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
    path: String,
    id: String,
    kind: &'static str,
    mode: String,
    uid: u32,
    gid: u32,
    links: u32,
    /// Absent unless it is a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    size_bytes: Option<u64>,
    /// The target of a symbolic link.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    modified: String,
    changed: String,
    created: String,
    /// Distribution and parameters; absent unless it is a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    layout: Option<String>,
    /// The target of each datafile; absent unless it is a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    targets: Option<Vec<u32>>,
    /// Its lot; for a directory, the lot of new files in it. Absent if none.
    #[serde(skip_serializing_if = "Option::is_none")]
    lot: Option<String>,
}

/// Prints the attributes.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let path = arguments.store.byte_path(&arguments.path)?;
    let session = Session::connect(&path.store, &arguments.store)?;
    let known = session.stat(&path.path)?;
    let size_bytes = (known.kind == FileKind::File).then(|| session.size(&path.path, &known)).transpose()?;
    let target = (known.kind == FileKind::Symlink).then(|| session.read_symlink(&path.path)).transpose()?;
    let lot = known.layout.as_ref().and_then(|layout| layout.lot).or(known.default_layout.as_ref().and_then(|choice| choice.lot));
    let document = Document {
        schema: "thalweg.stat/1",
        path: names::text(&path.path),
        id: known.id.to_string(),
        kind: listing::kind_text(known.kind),
        mode: listing::mode_text(known.kind, known.mode),
        uid: known.uid,
        gid: known.gid,
        links: known.links,
        size_bytes,
        target: target.as_deref().map(names::text),
        modified: listing::time_text(known.modified_ns),
        changed: listing::time_text(known.changed_ns),
        created: listing::time_text(known.created_ns),
        layout: known.layout.as_ref().map(|l| l.spec.to_string()),
        targets: known.layout.as_ref().map(|l| l.targets.iter().map(|t| t.0).collect()),
        lot: lot.map(|id| lots::name_of(&session, id)),
    };
    if arguments.json {
        return output::json(&document);
    }
    let mut text = format!("{}: {}, id {}\n", document.path, document.kind, document.id);
    if let Some(bytes) = size_bytes {
        text.push_str(&format!("size      {bytes} bytes ({})\n", numbers::size(bytes)));
    }
    if let Some(target) = &document.target {
        text.push_str(&format!("target    {target}\n"));
    }
    text.push_str(&format!("mode      {}, uid {}, gid {}, {} links\n", document.mode, document.uid, document.gid, document.links));
    text.push_str(&format!("modified  {}\nchanged   {}\ncreated   {}\n", document.modified, document.changed, document.created));
    if let (Some(layout), Some(targets)) = (&document.layout, &document.targets) {
        let targets: Vec<String> = targets.iter().map(u32::to_string).collect();
        text.push_str(&format!("layout    {layout} on targets {}\n", targets.join(", ")));
    }
    if let Some(lot) = &document.lot {
        let how = if known.kind == FileKind::Directory { ", for new files in it" } else { "" };
        text.push_str(&format!("lot       {lot}{how}\n"));
    }
    output::result(&text)
}
