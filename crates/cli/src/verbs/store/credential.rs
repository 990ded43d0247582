//! `thalweg credential`: creates, lists and revokes credentials for a store.
//!
//! The secret of a new credential is derived locally from the store's own, and only written to the file.

use crate::operand::StoreFlags;
use crate::{failure::Failure, listing, lots, output, session::Session};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use thalweg_base::numbers;
use thalweg_store::config::StoreConfig;
use thalweg_store::start::init_credential;
use thalweg_trace::Tracer;
use thalweg_wire::protocol::credentials::{CredentialBook, CredentialEntry, CredentialOperation};
use thalweg_wire::trust::{Credential, CredentialId, LotBounds, Rights};

/// Arguments of `thalweg credential`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Create a credential for an owner, in a file that only you can read
    Create(Create),
    /// List the credentials created
    Ls(Ls),
    /// Revoke a credential: servers refuse it from now on, even on open connections
    Revoke(Revoke),
    /// Create the store's own credential, for a store made by a release without credentials
    Init(Init),
    /// Move the password of the metadata database from a store.toml to a file that only you can read
    Password(Init),
}

#[derive(clap::Args)]
struct Create {
    /// The owner's name: the credential may use this owner's lots
    name: String,
    /// Permit reading only
    #[arg(long)]
    read_only: bool,
    /// Validity, like 12h or 30d (default: until it is revoked)
    #[arg(long, value_name = "TIME", value_parser = numbers::parse_age)]
    until: Option<Duration>,
    /// Total size of all lots of its owner, like 100Gi; 0: no lots (default: half of the store)
    #[arg(long, value_name = "SIZE", value_parser = numbers::parse_size, conflicts_with = "read_only")]
    lots: Option<u64>,
    /// Maximum term for which its owner may create or renew a lot, like 12h or 30d (default: 30d)
    #[arg(long, value_name = "TIME", value_parser = numbers::parse_age, conflicts_with = "read_only")]
    lots_for: Option<Duration>,
    /// The file to write (default: NAME.credential)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    store: StoreFlags,
}

#[derive(clap::Args)]
struct Ls {
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreFlags,
}

#[derive(clap::Args)]
struct Revoke {
    /// An owner's name (for all of its credentials), or a credential's number as shown by `ls`
    name: String,
    #[command(flatten)]
    store: StoreFlags,
}

#[derive(clap::Args)]
struct Init {
    /// The store.toml that describes the store
    store: PathBuf,
}

/// The document of `ls --json`.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    credentials: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    id: String,
    owner: String,
    /// `read` or `write`.
    rights: &'static str,
    created: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked: Option<String>,
    /// Maximum total size of its owner's lots, if the credential limits it.
    #[serde(skip_serializing_if = "Option::is_none")]
    lots_bytes: Option<u64>,
    /// Maximum term of its owner's lots, if the credential limits it.
    #[serde(skip_serializing_if = "Option::is_none")]
    lots_for_s: Option<u64>,
}

/// Runs the subcommand.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.what {
        What::Create(create) => make(create),
        What::Ls(ls) => list(ls),
        What::Revoke(revoke) => take_back(revoke),
        What::Init(init) => {
            let config = StoreConfig::read(&init.store).map_err(Failure::failed)?;
            output::note(&init_credential(&config).map_err(Failure::failed)?);
            Ok(())
        }
        What::Password(of) => {
            let config = StoreConfig::read(&of.store).map_err(Failure::failed)?;
            let shown = of.store.display();
            output::note(&match config.move_password().map_err(Failure::failed)? {
                Some(moved) => format!("{shown}: the password was moved to {}, mode 600", moved.display()),
                None => format!("{shown}: has no password in it"),
            });
            Ok(())
        }
    }
}

/// Connects to the store with its own credential.
fn reach(flags: &StoreFlags) -> Result<(Session, Arc<Credential>), Failure> {
    let store = flags.path("/")?.store;
    let session = Session::connect(&store, flags)?;
    let credential = flags.credentials(&store).and_then(|found| found.for_store(session.map().store)).map_err(Failure::failed)?;
    Ok((session, credential))
}

fn ask(session: &Session, operation: CredentialOperation) -> Result<CredentialBook, Failure> {
    session.names().credentials(&mut Tracer::off(), operation).map_err(Failure::failed)
}

fn make(create: &Create) -> Result<(), Failure> {
    let (session, own) = reach(&create.store)?;
    let rights = if create.read_only { Rights::Read } else { Rights::Write };
    let until_s = create.until.map(|time| u64::try_from(lots::now_ns() / 1_000_000_000).unwrap_or(0).saturating_add(time.as_secs()));
    let bounds = LotBounds::new(create.lots, create.lots_for).map_err(Failure::failed)?;
    let made = own.derive_bounded(&create.name, rights, until_s, bounds).map_err(Failure::failed)?;
    let path = create.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.credential", create.name)));
    // The file is written first: a registered credential can be revoked, and an unregistered one is of no use.
    if !made.write_new(&path).map_err(Failure::failed)? {
        return Err(Failure::failed(format!("{} exists already: choose another file with --output", path.display())));
    }
    if let Err(error) = ask(&session, CredentialOperation::Register(made.identity.clone())) {
        let _ = std::fs::remove_file(&path);
        return Err(error);
    }
    output::line(&path.display().to_string())?;
    output::note(&format!(
        "opens the store for `{}`{}: give the file to its owner (mode 600), who uses it with --credential FILE or THALWEG_CREDENTIAL",
        create.name,
        if create.read_only { ", for reading only" } else { "" }
    ));
    Ok(())
}

fn list(ls: &Ls) -> Result<(), Failure> {
    let (session, _) = reach(&ls.store)?;
    let rows: Vec<Row> = ask(&session, CredentialOperation::List)?.entries.iter().map(row).collect();
    if ls.json {
        return output::json(&Document { schema: "thalweg.credentials/1", credentials: rows });
    }
    let width = rows.iter().map(|row| row.owner.len()).max().unwrap_or(0);
    for row in rows {
        let end = match (&row.revoked, &row.until) {
            (Some(revoked), _) => format!("revoked {revoked}"),
            (None, Some(until)) => format!("until {until}"),
            (None, None) => "until it is revoked".to_owned(),
        };
        let bounds = bounds(&row);
        output::line(&format!("{}  {:width$}  {:5}  made {}  {end}{bounds}", row.id, row.owner, row.rights, row.created))?;
    }
    Ok(())
}

fn take_back(revoke: &Revoke) -> Result<(), Failure> {
    let (session, own) = reach(&revoke.store)?;
    let book = ask(&session, CredentialOperation::List)?;
    let is_meant = |entry: &&CredentialEntry| entry.identity.owner == revoke.name || entry.identity.id.to_string() == revoke.name;
    let mut ids: Vec<CredentialId> = book.entries.iter().filter(is_meant).map(|entry| entry.identity.id).collect();
    if ids.is_empty() && revoke.name == "read-only" {
        // The built-in read-only credential is not in the list until it is revoked.
        let read_only = own.read_only().map_err(Failure::failed)?.identity;
        ids.push(read_only.id);
        ask(&session, CredentialOperation::Register(read_only))?;
    }
    if ids.is_empty() {
        let problem = format!("no credential of `{}`: `thalweg credential ls` lists them", revoke.name);
        return Err(Failure::failed(problem));
    }
    let many = ids.len();
    let book = ask(&session, CredentialOperation::Revoke(ids))?;
    output::note(&format!("{many} of `{}` revoked: servers refuse it from now on, even on open connections", revoke.name));
    if !book.unaware.is_empty() {
        let servers = book.unaware.join(", ");
        return Err(Failure::failed(format!(
            "{servers} did not answer, and may accept the credential until they reach the metadata \
            service again"
        )));
    }
    Ok(())
}

fn row(entry: &CredentialEntry) -> Row {
    let time = |seconds: u64| listing::time_text(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000_000));
    Row {
        id: entry.identity.id.to_string(),
        owner: entry.identity.owner.clone(),
        rights: entry.identity.rights.name(),
        created: time(entry.created_s),
        until: entry.identity.until_s.map(time),
        revoked: entry.revoked_s.map(time),
        lots_bytes: entry.identity.lots.most_bytes(),
        lots_for_s: entry.identity.lots.longest().map(|time| time.as_secs()),
    }
}

/// Formats a credential's limits on its owner's lots.
fn bounds(row: &Row) -> String {
    let size = row.lots_bytes.map(|bytes| format!("lots up to {} in total", numbers::size(bytes)));
    let time = row.lots_for_s.map(|seconds| format!("lots for up to {}", numbers::age(Duration::from_secs(seconds))));
    size.into_iter().chain(time).map(|text| format!("  {text}")).collect()
}
