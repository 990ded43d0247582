//! What is in a recording, looked at once as it goes by, latest first: who is who, the spans that the walk may still want, and what is
//! gathered of all of them.

pub(crate) mod answered;
pub(crate) mod asking;
pub(crate) mod attempts;
pub(crate) mod channels;
pub(crate) mod children;
pub(crate) mod curve;
pub(crate) mod exchanges;
pub(crate) mod feed;
pub(crate) mod holds;
pub(crate) mod holes;
pub(crate) mod index;
pub(crate) mod last_connections;
pub(crate) mod lives;
pub(crate) mod locks;
pub(crate) mod observation;
pub(crate) mod on_wire;
pub(crate) mod overlap;
pub(crate) mod paths;
pub(crate) mod pipes;
pub(crate) mod quantile;
pub(crate) mod questions;
pub(crate) mod ranks;
pub(crate) mod resolvers;
pub(crate) mod roles;
pub(crate) mod served;
pub(crate) mod sightings;
pub(crate) mod span;
pub(crate) mod spins;
pub(crate) mod stalls;
pub(crate) mod sustained;
pub(crate) mod tables;
pub(crate) mod try_locks;
pub(crate) mod turns;
pub(crate) mod wire;
pub(crate) mod words;
