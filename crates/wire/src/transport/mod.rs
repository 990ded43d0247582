//! Messages on a connection: a 64-byte header, a serialised body, a raw payload.
//!
//! Both ends block: the data path is a few zero-copy system calls per flow buffer, made by one thread per connection, whose
//! activity is easy to trace and to explain. [`Connection`] is the client's end, [`serve`] the server's; services differ in how
//! they handle a request ([`Service`]). A non-blocking client end ([`pipe`]) lets one thread send many small requests to many
//! servers.
//!
//! Nothing a peer claims is trusted before it is checked: one checksum covers header and body, every length is checked against
//! [`crate::limits`] before memory is allocated for it, and a message that is not understood is answered with an error that names
//! what was found and what was expected, after which the connection is closed.

mod channel;
mod connect;
mod connection;
mod counted;
pub mod descriptors;
mod exchange;
mod header;
pub mod patience;
pub mod pipe;
mod proving;
mod recorded;
pub mod server;
pub(crate) mod socket;
mod tls;

pub use channel::Channel;
pub use connect::Connect;
pub use connection::{Connection, Reply, unexpected};
pub use counted::flush as flush_counters;
pub use descriptors::raise as raise_descriptors;
pub use exchange::Exchange;
pub use exchange::{decode, encode, request_header};
pub use header::{FLAG_REPLY, HEADER_BYTES, Header, Kind, MAGIC, VERSION, VERSION_MIN};
pub use patience::Operation;
pub use proving::proven;
pub use server::{Budget, Running, ServeOptions, Service, Session, serve};
pub use tls::{ClientTls, Fingerprint, ServerKey, ServerTls};
