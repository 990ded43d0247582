//! Names of causes and places in an explanation: without a server, the prefix "client" is dropped.

use thalweg_explain::Cause;
use thalweg_explain::document::Explanation;

/// Whether a cause is at a server, or on the network.
fn is_elsewhere(cause: Cause) -> bool {
    cause.name().starts_with("server.") || cause.name().starts_with("network.")
}

/// Whether a server or the network is involved.
pub(crate) fn has_server(e: &Explanation) -> bool {
    e.critical_path.iter().any(|charge| is_elsewhere(charge.cause)) || e.channels.iter().any(|c| c.name.contains(" > "))
}

/// Returns a cause's name for use among these others.
pub(crate) fn name_beside(cause: Cause, mut all: impl Iterator<Item = Cause>) -> &'static str {
    if all.any(is_elsewhere) { cause.name() } else { cause.name().trim_start_matches("client.") }
}

/// Returns a cause's name.
pub(crate) fn cause_name(e: &Explanation, cause: Cause) -> &'static str {
    if has_server(e) { cause.name() } else { cause.name().trim_start_matches("client.") }
}

/// Returns a place's name.
pub(crate) fn place_name<'a>(e: &Explanation, place: &'a str) -> &'a str {
    if has_server(e) { place } else { place.strip_prefix("client ").unwrap_or(place) }
}
