//! `thalweg lot renew`, `resize` and `rm`.

use crate::operand::StoreFlags;
use crate::{failure::Failure, lots, output};
use std::time::Duration;
use thalweg_base::numbers;
use thalweg_wire::protocol::lots::LotOperation;

/// Arguments of `thalweg lot renew`.
#[derive(clap::Args)]
pub(super) struct Renew {
    /// The lot
    name: String,
    /// It ends so long from now, like 90min, 12h or 7d; 0: now, and what is in it stays while nobody needs the room
    #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true, value_parser = numbers::parse_term)]
    term: Duration,
    /// Print what it is then as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// Arguments of `thalweg lot resize`.
#[derive(clap::Args)]
pub(super) struct Resize {
    /// The lot
    name: String,
    /// Its new size
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = numbers::parse_size)]
    size: u64,
    /// Print what it is then as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// Arguments of `thalweg lot rm`.
#[derive(clap::Args)]
pub(super) struct Remove {
    /// The lot
    name: String,
    /// Remove the files in it, too; otherwise a lot with files is refused
    #[arg(long)]
    files: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// Sets when it ends.
pub(super) fn renew(arguments: &Renew) -> Result<(), Failure> {
    let (session, name) = lots::connect(&arguments.name, &arguments.store)?;
    let for_ns = nanoseconds(arguments.term);
    let report = lots::one(lots::asked(&session, LotOperation::Renew { name, for_ns })?)?;
    super::report::print_changed(&report, arguments.json)
}

/// Sets its size.
pub(super) fn resize(arguments: &Resize) -> Result<(), Failure> {
    let (session, name) = lots::connect(&arguments.name, &arguments.store)?;
    let report = lots::one(lots::asked(&session, LotOperation::Resize { name, size_bytes: arguments.size })?)?;
    super::report::print_changed(&report, arguments.json)
}

/// Removes it.
pub(super) fn remove(arguments: &Remove) -> Result<(), Failure> {
    let (session, name) = lots::connect(&arguments.name, &arguments.store)?;
    lots::asked(&session, LotOperation::Remove { name: name.clone(), files: arguments.files })?;
    output::line(&format!("lot {name}: removed{}", if arguments.files { ", and its files" } else { "" }))
}

/// A time as the protocol has it; one too long for that is too long for the service, which says so.
pub(super) fn nanoseconds(term: Duration) -> u64 {
    u64::try_from(term.as_nanos()).unwrap_or(u64::MAX)
}
