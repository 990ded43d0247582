//! What a connection carries: what its recorder saw in its first bytes, else what its server's port is registered for.

use crate::peer;
use thalweg_trace::Object;

/// A connection's protocol, and whether its first bytes say so; of a port alone it is what is usual there.
pub(super) fn protocol(object: &Object) -> Option<(String, bool)> {
    if let Some((_, seen)) = object.attributes.iter().find(|(name, _)| name == "application") {
        return Some((seen.clone(), true));
    }
    peer::usual_at(peer::port_of(&object.name)?).map(|name| (name.to_owned(), false))
}
