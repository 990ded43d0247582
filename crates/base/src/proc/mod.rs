//! What the kernel says of processes, mounts and control groups: the readers of the files in /proc that more than one room needs.
//!
//! Each file has one reader, and each reader one parser, which takes the text and is tested with it. The recorders' fast paths keep their
//! descriptors open and read with one system call ([`stat::ThreadStat`]); that is why the crate `procfs` is not used here.

pub mod cgroups;
pub mod maps;
pub mod mounts;
pub mod processors;
pub mod stat;
pub mod status;
pub mod task_file;
