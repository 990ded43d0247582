//! `thalweg lot renew`, `resize` and `rm`: change or remove a lot.

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
    /// New term from now, like 90min, 12h or 7d; 0 lets the lot expire now (its files stay until the space is needed)
    #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true, value_parser = numbers::parse_term)]
    term: Duration,
    /// Print the changed lot as JSON
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
    /// Print the changed lot as JSON
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
    /// Also remove the files in the lot; without this, a lot with files is not removed
    #[arg(long)]
    files: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// Sets the end of the lot.
pub(super) fn renew(arguments: &Renew) -> Result<(), Failure> {
    let (session, name) = lots::connect(&arguments.name, &arguments.store)?;
    let for_ns = nanoseconds(arguments.term);
    let report = lots::one(lots::asked(&session, LotOperation::Renew { name, for_ns })?)?;
    super::report::print_changed(&report, arguments.json)
}

/// Sets the size of the lot.
pub(super) fn resize(arguments: &Resize) -> Result<(), Failure> {
    let (session, name) = lots::connect(&arguments.name, &arguments.store)?;
    let report = lots::one(lots::asked(&session, LotOperation::Resize { name, size_bytes: arguments.size })?)?;
    super::report::print_changed(&report, arguments.json)
}

/// Removes the lot.
pub(super) fn remove(arguments: &Remove) -> Result<(), Failure> {
    let (session, name) = lots::connect(&arguments.name, &arguments.store)?;
    lots::asked(&session, LotOperation::Remove { name: name.clone(), files: arguments.files })?;
    output::line(&format!("lot {name}: removed{}", if arguments.files { ", and its files" } else { "" }))
}

/// Converts a term to the protocol's nanoseconds. Saturates: the service rejects a term that long.
pub(super) fn nanoseconds(term: Duration) -> u64 {
    u64::try_from(term.as_nanos()).unwrap_or(u64::MAX)
}
