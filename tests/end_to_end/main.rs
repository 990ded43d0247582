//! End to end, through the command line: every promise a person can see, on real stores, real files and real processes.
//!
//! One module is one suite. [`common`] starts stores and commands, and ends by its own process id what it started.

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
mod launch;
mod listing;
mod lots;
mod mount;
mod recording;
mod sweep;
mod trust;
mod tune;
mod verifying;
