//! Stores larger than the test machines: the production code on a simulated network and clock.
//!
//! A thousand I/O servers and ten thousand clients do not fit on one machine as processes, but they do as state machines.
//!
//! | production code | model |
//! |---|---|
//! | the walker's core ([`thalweg_client::walk`]), one per listing client | CPU costs ([`setting`]), measured on real servers |
//! | the metadata service's sessions, namespace and size proofs, over the in-memory database | CPUs, and the service's read slots and
//! single writer ([`host`]) |
//! | the I/O servers' targets, on a file system | links: a latency and a rate for each host in each direction |
//! | messages, encoded and decoded at both ends, so that their sizes are exact | TCP: connecting, and retrying after 1, 2, 4 … s if a
//! listener's queue is full |
//! | admission and its limits ([`thalweg_wire`]); the shares of descriptors | a client's steps around a walk: connect, fetch the map, open,
//! fetch sizes ([`client`]) |
//!
//! Events are processed in a fixed order, so a setting always has the same outcome, on any machine.

mod client;
mod events;
mod host;
mod setting;
mod site;
mod storm;
mod tests;
