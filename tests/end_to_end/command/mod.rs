//! The command line, the terminal, bad input and Ctrl-C.

mod bad_input;
mod completing;
mod doctor;
mod interrupts;
mod promises;
mod terminal;
mod version;
