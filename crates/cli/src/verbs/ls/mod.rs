//! `thalweg ls`: names, or with `-l` what is known of each.

use crate::operand::{StoreFlags, StorePath};
use crate::{failure::Failure, listing, output, session::Session};
use serde::Serialize;
use thalweg_store::protocol::metadata::{DirectoryEntry, FileKind};

/// Arguments of `thalweg ls`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Directories or files: thal://HOST:PORT/path, or paths with --store (default: the store's root)
    paths: Vec<String>,
    /// Mode, owner, size and time of each
    #[arg(short, long)]
    long: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// The document of `--json`, for each path.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    path: String,
    entries: Vec<Entry>,
}

/// One name. What only `-l` asks for is absent without it.
#[derive(Serialize)]
pub struct Entry {
    name: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gid: Option<u32>,
    /// Absent for what is no file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    modified: Option<String>,
    /// What a symbolic link points to.
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

/// Lists.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let root = vec!["/".to_owned()];
    let paths = if arguments.paths.is_empty() { &root } else { &arguments.paths };
    for (i, path) in paths.iter().enumerate() {
        let path = arguments.store.path(path)?;
        let session = Session::connect(&path.store, &arguments.store)?;
        if paths.len() > 1 && !arguments.json {
            output::line(&format!("{}{path}:", if i > 0 { "\n" } else { "" }))?;
        }
        list(&session, &path, arguments)?;
    }
    Ok(())
}

fn list(session: &Session, path: &StorePath, arguments: &Arguments) -> Result<(), Failure> {
    let mut attributes = session.stat(&path.path)?;
    let mut path = path.clone();
    if attributes.kind == FileKind::Symlink && !arguments.long {
        // As elsewhere: a link that is named stands for its directory, unless more than names is asked for.
        if let Some((followed, found)) = session.follow(&path.path)?.filter(|(_, found)| found.kind == FileKind::Directory) {
            (path.path, attributes) = (followed, found);
        }
    }
    let mut entries = Vec::new();
    if attributes.kind == FileKind::Directory {
        // Names alone stream as they come; columns and JSON need all of them.
        session.list(&path.path, arguments.long, |page| {
            if arguments.long || arguments.json {
                entries.extend(session.described(&path.path, page, arguments.long)?);
                return Ok(());
            }
            output::result(&page.iter().map(|entry| format!("{}\n", name_text(&entry.name))).collect::<String>())
        })?;
    } else {
        let name = path.path.rsplit('/').next().unwrap_or_default().as_bytes().to_vec();
        let entry = DirectoryEntry { name, id: attributes.id, kind: attributes.kind, attributes: Some(attributes) };
        let parent = path.path.rsplit_once('/').map_or("/", |(parent, _)| parent);
        entries = session.described(parent, vec![entry], arguments.long)?;
    }
    if arguments.json {
        return output::json(&Document { schema: "thalweg.ls/1", path: path.path, entries });
    }
    if arguments.long {
        return output::result(&columns(&entries));
    }
    output::result(&entries.iter().map(|e| format!("{}\n", e.name)).collect::<String>())
}

/// A name as text: what is not UTF-8 or would move the cursor is escaped.
pub fn name_text(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    match text.chars().any(char::is_control) {
        true => text.escape_debug().to_string(),
        false => text.into_owned(),
    }
}

impl Entry {
    /// An entry, with its size where it is a file and its target where it is a symbolic link; `long`: with everything else.
    pub fn new(entry: &DirectoryEntry, size_bytes: Option<u64>, target: Option<&[u8]>, long: bool) -> Entry {
        let known = entry.attributes.as_ref().filter(|_| long);
        Entry {
            name: name_text(&entry.name),
            kind: listing::kind_text(entry.kind),
            mode: known.map(|a| listing::mode_text(a.kind, a.mode)),
            uid: known.map(|a| a.uid),
            gid: known.map(|a| a.gid),
            size_bytes,
            modified: known.map(|a| listing::time_text(a.modified_ns)),
            target: target.map(name_text),
        }
    }
}

fn columns(entries: &[Entry]) -> String {
    let number = |n: Option<u64>| n.map_or("-".to_owned(), |n| n.to_string());
    let width = |f: &dyn Fn(&Entry) -> String| entries.iter().map(|e| f(e).len()).max().unwrap_or(0);
    let uid = |e: &Entry| number(e.uid.map(u64::from));
    let gid = |e: &Entry| number(e.gid.map(u64::from));
    let size = |e: &Entry| number(e.size_bytes);
    let (uids, gids, sizes) = (width(&uid), width(&gid), width(&size));
    entries
        .iter()
        .map(|e| {
            let (mode, modified) = (e.mode.as_deref().unwrap_or("?"), e.modified.as_deref().unwrap_or("?"));
            let target = e.target.as_ref().map(|target| format!(" -> {target}")).unwrap_or_default();
            format!("{mode} {:>uids$} {:>gids$} {:>sizes$} {modified} {}{target}\n", uid(e), gid(e), size(e), e.name)
        })
        .collect()
}
