//! The command: found as a shell would find it, held before `execve`, released, waited for.
//!
//! The process must exist before it runs, so that a recorder can attach to it; and it must run exactly as it would
//! without us: the same descriptors, signal dispositions, process group and terminal. So it is forked here (not
//! through `std::process`), waits on a pipe, and calls `execve` with arguments prepared before the fork. Its
//! environment is in memory shared by both, since a recorder's additions may be known only after the fork.

mod elf;
mod held;
mod resolve;

pub(crate) use elf::{Executable, Linkage};
pub use held::Exit;
pub(crate) use held::Held;
pub(crate) use resolve::{CommandFile, find};
