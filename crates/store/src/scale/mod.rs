//! Stores larger than any machine here: the code that ships, in a network and in a time that are made up.
//!
//! A thousand I/O servers and ten thousand clients do not fit on one machine as processes. As state machines they do.
//!
//! | what runs as it ships | what is modelled |
//! |---|---|
//! | the walker's core ([`thalweg_client::walk`]), one for each client that lists | what a piece of work costs a processor ([`setting`]), measured on real servers |
//! | the metadata service's sessions, its namespace, its proofs of sizes, over the database in memory | processors, and the turns and the one writer that the service has ([`host`]) |
//! | the I/O servers' targets, on a file system | links: a latency and a rate for each host, both ways |
//! | messages, encoded and decoded at both ends: their sizes are not guessed | TCP: connecting, and trying again after 1, 2, 4 … s where a listener's queue is full |
//! | who is admitted, and how many ([`thalweg_wire`]); the shares of descriptors | a client's steps around a walk: connect, ask who is who, open, ask for sizes ([`client`]) |
//!
//! Everything happens in the order of a queue of events, so the same setting has the same outcome, on any machine.

mod client;
mod events;
mod host;
mod setting;
mod site;
mod storm;
mod tests;
