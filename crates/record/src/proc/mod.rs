//! Information on processes from /proc and the kernel's socket diagnostics, without touching them.
//!
//! [`processes`] reads the process table, [`listeners`] finds who listens where, [`serving`] how a process can be
//! contacted. [`recorder`] samples threads every few milliseconds: for static and set-user-ID programs, and for
//! processes older than the recording; where the kernel tells every switch, it only looks at waits. [`calls`] are those
//! that the preloaded library records. [`system`] counts the machine's devices, and [`quotas`] throttling by control
//! groups, for every recorder without privilege.

mod blocking;
pub(crate) mod calls;
pub(crate) mod diagnostics;
pub(crate) mod disks;
mod divide;
pub(crate) mod files;
mod fuse;
mod kernel;
pub(crate) mod listeners;
mod locks;
mod memory;
mod moved;
mod named;
mod namespaces;
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
