//! A store for the length of a job, over the hosts of an allocation.
//!
//! **In:** hosts (given, or those of Slurm, PBS, Open MPI or MPICH), directories on them, a program. **Out:** the program's end, and what it
//! was asked to copy out. **Never:** a scheduler; servers that outlive the job; data removed that was to be copied out and was not.
//!
//! The command that runs the job starts one *part* of it on each host, through what the site has (`srun`, `mpirun`, `ssh`, or nothing on this
//! machine), and talks to it over its standard input and output, a line of JSON each way. A part listens first and says on which ports; then
//! the store can be described, and each part is given the description and the credential. So no port is fixed, no file system has to be
//! shared, and no secret stands in a command line. When the pipe breaks, the part stops: whatever becomes of the job, no server stays.
//! (Rejected: one `srun` or `mpirun` for all hosts, since `mpirun` gives its input to one rank only; fixed ports, which two jobs on a host
//! would share; a control connection back, which would need a secret of its own.)
//!
//! | room | what is in it |
//! |---|---|
//! | [`hosts`] | which hosts: lists, ranges, host files, and their addresses |
//! | [`Starter`] | how a part is started on a host |
//! | `words` | what the job and its parts say to each other |
//! | [`part()`] | the part of a job on one host |
//! | `parts` | all of them, as the job sees them |
//! | `described` | the store over all hosts, and where it is kept while it may be needed again |
//! | `child` | the program, copies: what ends with the job |
//! | `watching` | what the program has started, when the job is killed |
//! | `mounting` | the mount on one machine |
//! | [`run()`] | the job from its start to its end |

#![warn(unreachable_pub)]

mod child;
mod described;
mod error;
pub mod hosts;
mod job;
mod mounting;
mod part;
mod parts;
mod starter;
mod watching;
mod words;

pub use described::Kept;
pub use error::{LaunchError, Result};
pub use job::{Job, run};
pub use part::part;
pub use starter::Starter;
pub use watching::watch;
