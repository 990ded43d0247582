//! Lots over I/O servers that are made up: what is promised when everything is killed after any step, with the power or without, and who
//! may do what.

mod kills;
mod life;
pub(crate) mod made_up;
