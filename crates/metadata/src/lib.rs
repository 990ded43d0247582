//! The metadata service: alone orders names, renames and truncations, and remembers each file's layout.
//!
//! **In:** requests on names; a database, the store's I/O servers. **Out:** answers, and orders to the I/O servers. **Never:** knows how an I/O
//! server does what it is asked for, and never carries a file's bytes but small ones.
//!
//! | room | what is in it |
//! |---|---|
//! | `database` | what is asked of a database, and with which durability; the embedded one |
//! | `inode` | the rows: inodes, directory entries, intents |
//! | `sizes` | when a file's size is known here, and the proof that it is right |
//! | `namespace` | names and files, and the operations on them, each one transaction |
//! | `lineage` | which starts there were: whether this metadata is older than its targets |
//! | `recovery` | the time after a start in which clients say what they have open |
//! | `witnesses` | the I/O servers that remember how far it has come |
//! | `io_servers` | how it speaks to the I/O servers |
//! | `lots` | space that is reserved for an owner |
//! | `claims` | who works on what, one at a time |
//! | `background` | threads that do at the I/O servers what operations have left to do |
//! | `locks` | advisory locks and append turns of all clients |
//! | `service` | the namespace on the wire |

#![warn(unreachable_pub)]

mod background;
mod claims;
mod credentials;
pub mod database;
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
