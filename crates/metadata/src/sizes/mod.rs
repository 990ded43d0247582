//! Sizes that the service can prove.
//!
//! A file's bytes are at the I/O servers and change without a word to this service; it only knows who may change them: a client opens
//! a file for writing, and says how that has ended. So the size is known, *settled*, while nobody has the file open for writing:
//!
//! | in the inode | means | becomes |
//! |---|---|---|
//! | settled: a size | nobody writes, nothing is in flight | open, before the first writer's open is answered |
//! | unknown, unasked | the same, but the size is at the I/O servers alone | settled, when they were asked ([`settler`](super::background::settler)) and nobody wrote meanwhile |
//! | open | somebody may be writing | settled, when the last writer has ended and every one of them has said where its bytes end; unknown, if the file was truncated meanwhile; it stays open for good if a writer went without a word, for what it has sent may arrive at any time |
//!
//! **The proof.** A list or an answer about attributes reads one row, at one moment between question and answer. If it is settled, no
//! writer's open had been answered by then, since the row is changed in the log before: so at that moment the I/O servers had this size. What
//! is not in this argument is power: a machine that was restarted may have lost bytes, or this service the word of a writer. So a settled size
//! is of a machine start of each server ([`boots`]), and counts if the servers with parts of the file, asked after the question came,
//! say that it still is that one.
//!
//! **Lengths.** With a size goes what is known of each datafile's length: as in a file without holes, where the writers say that they
//! wrote everything up to there; otherwise as long as the settler finds them. So a datafile that is gone or was cut off is reported
//! from a hole. That bytes were lost with power, and not their length, is found by rounds ([`rounds`]).
//!
//! **After a kill** the table of writers ([`writers`]) is empty, and rows that say open stay so: the writers may still be writing.
//! A file of which that is so is asked of the I/O servers each time, and is known again when another takes its place.

pub(super) mod boots;
pub(super) mod rounds;
pub(super) mod writers;
