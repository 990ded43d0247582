//! Reaching a store, and formatting times, for the subcommands.

use crate::listing;
use crate::operand::StoreFlags;
use thalweg_store::config::StoreAddress;
use thalweg_wire::{Connect, Error};

/// Returns how to connect to a store.
pub(super) fn connect(flags: &StoreFlags, store: &StoreAddress) -> Result<Connect, Error> {
    let credentials = flags.credentials(store)?;
    Ok(Connect {
        timeout: flags.timeout,
        client: format!("thalweg metadata {}", std::process::id()),
        node: flags.node(),
        credentials,
        ..Connect::default()
    })
}

/// Formats a time in seconds since 1970.
pub(super) fn time_text(seconds: u64) -> String {
    listing::time_text(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000_000))
}
