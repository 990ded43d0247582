//! The protocol of a connection: from its first bytes, if recorded, else by its server's port.

use crate::peer;
use thalweg_trace::Object;

/// A connection's protocol, and whether its first bytes show it; by the port alone, it is the usual one.
pub(super) fn protocol(object: &Object) -> Option<(String, bool)> {
    if let Some((_, seen)) = object.attributes.iter().find(|(name, _)| name == "application") {
        return Some((seen.clone(), true));
    }
    peer::usual_at(peer::port_of(&object.name)?).map(|name| (name.to_owned(), false))
}
