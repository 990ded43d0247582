//! `thalweg metadata restore`.

use super::reach::time_text;
use crate::operand::StoreFlags;
use crate::{failure::Failure, names, output};
use serde::Serialize;
use std::path::PathBuf;
use thalweg_base::numbers;
use thalweg_store::backup::{self, Made, Restore as Done};
use thalweg_store::config::{StoreAddress, StoreConfig};
use thalweg_wire::protocol::metadata::FileKind;

/// Maximum number of files listed as text. Instead: --json lists all.
const LISTED: usize = 100;

#[derive(clap::Args)]
#[command(
    after_help = "Run it on the metadata service's machine, as the user who runs the store, while the store is stopped: thalweg metadata restore \
FILE --store DIR/store.toml. A damaged backup is refused before anything else is done. The database that is there is moved aside and named, never \
removed. Numbers of files go on after all that targets on this machine and servers that answer have seen. Names are as they were when the backup was \
taken; bytes are as they are now: reading a file whose bytes have been removed since is an error."
)]
pub(super) struct Restore {
    /// The backup
    file: PathBuf,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// The document of `restore --json`.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    store: String,
    taken: String,
    names: u64,
    inodes: u64,
    /// Where the database is that was there before.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    /// Why it could not be read, if so: names made since are unknown then.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
    next_epoch: u64,
    /// Credentials made or revoked since, which stay so.
    credentials_kept: u64,
    /// Files written since, or in the minute before, whose sizes are those of their datafiles.
    written_since: u64,
    /// Files and directories removed since, which have names again.
    #[serde(skip_serializing_if = "Option::is_none")]
    removed_since: Option<u64>,
    created_since: Vec<Created>,
    /// Targets that were not looked at, and why.
    unseen: Vec<String>,
}

#[derive(Serialize)]
struct Created {
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    paths: Vec<String>,
    datafiles: Vec<Datafile>,
}

#[derive(Serialize)]
struct Datafile {
    path: String,
    bytes: u64,
}

pub(super) fn run(arguments: &Restore) -> Result<(), Failure> {
    let config = match arguments.store.path("/")?.store {
        StoreAddress::File(path) => StoreConfig::read(&path).map_err(Failure::failed)?,
        StoreAddress::Service(address) => {
            let problem = format!(
                "thal://{address}: a store is stopped while its metadata is restored: give its store.toml, as --store DIR/store.toml"
            );
            return Err(Failure::usage(problem));
        }
    };
    let done = backup::restore(&config, &arguments.file).map_err(Failure::failed)?;
    if arguments.json {
        return output::json(&document(&done));
    }
    tell(&done)
}

fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "link",
        FileKind::Fifo => "pipe",
        FileKind::Socket => "socket",
        FileKind::CharacterDevice | FileKind::BlockDevice => "device",
    }
}

fn document(done: &Done) -> Document {
    let datafile = |(path, bytes): &(PathBuf, u64)| Datafile { path: path.display().to_string(), bytes: *bytes };
    let created = |made: &Made| Created {
        file: made.id.to_string(),
        kind: made.kind.map(kind),
        paths: made.paths.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect(),
        datafiles: made.datafiles.iter().map(datafile).collect(),
    };
    Document {
        schema: "thalweg.metadata-restore/1",
        store: done.header.store.clone(),
        taken: time_text(done.header.taken_s),
        names: done.restored.names,
        inodes: done.restored.inodes,
        before: done.restored.before.clone(),
        unreadable: done.unreadable.clone(),
        next_epoch: done.restored.next,
        credentials_kept: done.restored.credentials,
        written_since: done.restored.written,
        removed_since: done.since.removed,
        created_since: done.since.made.iter().map(created).collect(),
        unseen: done.since.unseen.clone(),
    }
}

/// Prints what was done, and what was made since.
fn tell(done: &Done) -> Result<(), Failure> {
    let (restored, since) = (&done.restored, &done.since);
    output::line(&format!("{} names restored, as of {}", numbers::count(restored.names), time_text(done.header.taken_s)))?;
    match &restored.before {
        Some(before) => output::line(&format!("the database that was there is in {before}"))?,
        None => output::line("there was no database")?,
    }
    if let Some(why) = &done.unreadable {
        output::line(&format!(
            "it could not be read ({why}): names made since are unknown, and credentials revoked since are accepted again: revoke them once more"
        ))?;
    }
    if since.made.is_empty() {
        output::line("nothing that was made since was found")?;
    } else {
        output::line(&format!("made since, and without names now ({}):", numbers::count(since.made.len() as u64)))?;
    }
    for made in since.made.iter().take(LISTED) {
        let paths: Vec<String> = made.paths.iter().map(|path| names::text(path)).collect();
        let shown = if paths.is_empty() { "(name unknown)".to_owned() } else { paths.join(", ") };
        output::line(&format!("  {shown}  {} {}", made.kind.map_or("file", kind), made.id))?;
        for (path, bytes) in &made.datafiles {
            output::line(&format!("    {}  {}", path.display(), numbers::size(*bytes)))?;
        }
    }
    if since.made.len() > LISTED {
        output::line(&format!("  and {} more, which --json lists", numbers::count((since.made.len() - LISTED) as u64)))?;
    }
    let many = |count: u64, what: &str| (count > 0).then(|| format!("{} {what}", numbers::count(count)));
    let lines = [
        many(
            since.removed.unwrap_or(0),
            "removed since have names again; reading files among them is an error, since their bytes are gone",
        ),
        many(restored.written, "files were written since, or in the minute before: they have the bytes and sizes of now"),
        many(restored.credentials, "credentials made or revoked since stay so"),
    ];
    lines.iter().flatten().try_for_each(|line| output::line(line))?;
    since.unseen.iter().try_for_each(|line| output::line(line))?;
    output::line(&format!("start the store as usual: it begins start {}, and its servers go on from there", restored.next))
}
