//! A store for the duration of a job, over the hosts of an allocation.
//!
//! **In:** hosts (given, or those of Slurm, PBS, Open MPI or MPICH), directories on them, a program. **Out:** the program's exit status,
//! and the results copied out of the store. **Never:** schedules jobs; leaves servers behind; removes data that was to be copied out and
//! was not.
//!
//! The command that runs the job starts one *part* on each host through the site's own starter (`srun`, `mpirun`, `ssh`, or nothing on this
//! machine), and exchanges lines of JSON with it over standard input and output. A part first listens and reports its ports; then the job
//! describes the store and sends each part the description and the credential. So ports are not fixed, no shared file system is needed, and
//! no secret appears on a command line. When the pipe breaks, the part stops, so no server outlives the job. (Rejected: one `srun` or
//! `mpirun` for all hosts, since `mpirun` gives its input to one rank only; fixed ports, which would clash between two jobs on a host; a
//! control connection back, which would need its own secret.)
//! | room | what is in it |
//! | module | content |
//! | [`hosts`] | which hosts: lists, ranges, host files, and their addresses |
//! | [`hosts`] | the hosts of a job: lists, ranges, host files, and their addresses |
//! | [`Starter`] | how a part is started on a host |
//! | `messages` | the messages between a job and its parts |
//! | `parts` | all of them, as the job sees them |
//! | `parts` | all parts, as the job sees them |
//! | `saved_store` | the store over all hosts, and its description saved for a later job |
//! | `child` | processes that end with the job: the program, copies |
//! | `watching` | ending the program's processes when the job is killed |
//! | [`run()`] | the job from start to end |

#![warn(unreachable_pub)]

mod child;
mod error;
pub mod hosts;
mod job;
mod messages;
mod mounting;
mod part;
mod parts;
mod saved_store;
mod starter;
mod watching;

pub use error::{LaunchError, Result};
pub use job::{Job, run};
pub use part::part;
pub use saved_store::SavedStore;
pub use starter::Starter;
pub use watching::watch;
