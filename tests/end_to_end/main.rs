//! End to end, through the command line: every visible promise, on real stores, real files and real processes.
//!
//! One module is one suite. [`common`] starts stores and commands, and ends what it started by its process ID.

#[path = "../bounded.rs"]
mod bounded;
#[path = "../content.rs"]
mod content;

mod bench_commands;
mod bench_layout;
mod bench_ls;
mod command;
mod common;
mod copying;
mod demo;
mod failing;
mod formats;
mod launch;
mod listing;
mod lots;
mod mount;
mod recording;
mod session;
mod sweep;
mod trust;
mod tune;
mod verifying;
