//! What /proc and the kernel's socket diagnostics say of processes, without touching them.
//!
//! [`processes`] reads the table of processes, [`listeners`] who listens where, [`serving`] by what one can be called. [`recorder`] watches threads by looking at them every few
//! milliseconds: for static and set-user-ID programs, and for processes that were there before. [`system`] counts what
//! belongs to the machine (devices), [`quotas`] what control groups took, for every recorder without privilege.

mod around;
pub(crate) mod diagnostics;
pub(crate) mod disks;
mod divide;
pub(crate) mod files;
mod kernel;
pub(crate) mod listeners;
mod locks;
mod memory;
mod moved;
pub(crate) mod processes;
pub(crate) mod quotas;
pub(crate) mod recorder;
pub(crate) mod serving;
pub(crate) mod strangers;
pub(crate) mod system;
pub(crate) mod tasks;
mod waits;
mod wakers;

pub(crate) use recorder::ProcRecorder;
