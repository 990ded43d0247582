//! What shows that a change worked: several runs, conditions, two runs held against each other.

mod diff;
mod fail_if;
mod runs;
mod trying;
