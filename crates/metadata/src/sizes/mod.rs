//! Sizes that the service can prove.
//!
//! A file's bytes are at the I/O servers, and change without a message to this service. It only knows who may change them: a client opens a
//! file for writing, and reports the outcome when it closes it. So the size is known, *settled*, while the file has no writers:
//!
//! | state in the inode | meaning | next state |
//! |---|---|---|
//! | settled: a size | no writers, nothing in flight | open, before the first writer's open is answered |
//! | unknown, unasked | no writers, nothing in flight, but only the I/O servers know the size | settled, once they were queried
//! ([`settler`](super::background::settler)) without writers meanwhile |
//! | open | there may be writers | settled, once the last writer has ended and all have reported where their bytes end; unknown, if the
//! file was truncated meanwhile; it stays open permanently if a writer failed silently, since its messages may arrive at any time |
//!
//! **The proof.** A listing or a request for attributes reads a row once, between request and answer. If it is settled, no writer's open
//! had been answered by then, since the row is changed in the log before: so at that time the I/O servers had this size. This argument
//! ignores power losses: a machine that was restarted may have lost bytes, or this service a writer's report. So a settled size belongs to
//! a machine start of each server ([`boots`]), and is valid if the servers with parts of the file, queried after the request arrived,
//! confirm that machine start.
//!
//! **Lengths.** A size is stored with the knowledge of each datafile's length: as in a file without holes, if the writers report that they
//! wrote everything up to there; otherwise as found by the settler. So a missing or truncated datafile is distinguished from a hole. Bytes
//! lost in a power loss without a change of length are detected by rounds ([`rounds`]).
//!
//! **After a kill** the table of writers ([`writers`]) is empty, and open rows stay open, since the writers may still be writing. The I/O
//! servers are queried for such a file each time, until another file replaces it.

pub(super) mod boots;
pub(super) mod rounds;
pub(super) mod writers;
