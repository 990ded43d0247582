//! The metadata service: the only authority on names, renames, truncations and files' layouts.
//!
//! **In:** requests on names; a database, the store's I/O servers. **Out:** answers, and requests to the I/O servers. **Never:** depends on
//! how an I/O server works; carries a file's bytes, except small ones.
//!
//! | module | content |
//! |---|---|
//! | `database` | the interface of a database and its durability; the implementations |
//! | `inode` | the encoding of rows: inodes, directory entries, intents |
//! | `sizes` | when a file's size is known here, and the proof that it is current |
//! | `namespace` | names and files, and their operations, each one transaction |
//! | `lineage` | earlier starts: detects metadata that is older than its targets |
//! | `given_up` | histories that were given up when backups were restored |
//! | `recovery` | the time after a start in which clients report their open files |
//! | `witnesses` | the I/O servers that remember the service's progress |
//! | `io_servers` | requests to the I/O servers |
//! | `lots` | space reserved for an owner |
//! | `backup` | the whole database as a stream of rows, what a restored one is told, and the check of both |
//! | `claims` | exclusive work on an intent or a lot |
//! | `background` | threads that complete operations at the I/O servers |
//! | `locks` | advisory locks and append turns of all clients |
//! | `service` | the protocol over the namespace |

#![warn(unreachable_pub)]

mod background;
pub mod backup;
mod claims;
mod credentials;
pub mod database;
mod given_up;
mod inode;
pub mod io_servers;
pub mod lineage;
mod locks;
mod lots;
pub mod namespace;
mod recovery;
pub mod service;
mod sizes;
mod witnesses;
