//! End to end, through the command line: every promise a person can see, on real stores, real files and real processes.
//!
//! One module is one suite. [`common`] starts stores and commands, and ends by its own process id what it started.

mod bad_input;
mod bench_commands;
mod bench_layout;
mod bench_ls;
mod both_ends;
mod command_line;
mod common;
mod copies;
mod demo;
mod failures;
mod hostile;
mod interrupts;
mod limits;
mod listing;
mod listing_trouble;
mod lost;
mod mount;
mod namespaces;
mod partials;
mod record_command;
mod record_confined;
mod record_hard;
mod record_methods;
mod record_mounted;
mod recordings;
mod rpcstat;
mod silence;
mod terminal;
mod trees;
