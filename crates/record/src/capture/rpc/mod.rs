//! ONC RPC on a stream or in a datagram: records, the heads of messages, and the names of procedures. Nothing here knows connections.

mod message;
mod procedures;
mod records;

pub(crate) use message::{Heading, Outcome, datagram};
pub(crate) use procedures::Procedure;
pub(crate) use records::{Message, Part, Records};
