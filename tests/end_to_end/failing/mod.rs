//! Servers, disks and networks that fail, become silent or lie.

mod hostile;
mod limits;
mod lost;
mod namespaces;
mod older;
mod restoring;
mod servers;
mod silence;
