//! ONC RPC in a stream or a datagram: records, message heads, and procedure names. Independent of connections.

mod message;
mod procedures;
mod records;

pub(crate) use message::{Heading, Outcome, datagram};
pub(crate) use procedures::Procedure;
pub(crate) use records::{Message, Part, Records};
