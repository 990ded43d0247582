//! Readers of the files in /proc that more than one crate needs: processes, mounts and control groups.
//!
//! Each file has one reader, and each reader one parser, which takes the text and is tested with it. The recorders' fast paths keep their
//! descriptors open and read with one system call ([`stat::ThreadStat`]), which the crate `procfs` does not offer.

pub mod cgroups;
pub mod maps;
pub mod mounts;
pub mod processors;
pub mod stat;
pub mod status;
pub mod task_file;
