//! Messages on a connection: a 64-byte header, a serialised body, a raw payload.
//!
//! Both ends block: the data path is a few zero-copy system calls for each flow buffer, made by one thread for each
//! connection, and what such a thread did when is easy to trace and to explain. [`Connection`] is the client's end,
//! [`serve`] the server's; the services differ in what they do with a request ([`Service`]). For many small requests to many servers
//! by one thread there is a client's end on which nothing waits ([`pipe`]).
//!
//! Nothing that a peer claims is believed before it is checked: the header has its own checksum together with the body,
//! every length is held against [`crate::limits`] before memory is taken for it, and what is not understood is answered
//! with an error that names what was found and what was expected, and the connection is closed.

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
