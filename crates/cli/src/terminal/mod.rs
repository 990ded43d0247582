//! What a person sees and says: results, notes and progress, names and numbers as text, signals, exit codes.

pub mod exit;
pub mod failure;
pub mod interrupt;
pub mod listing;
pub mod names;
pub mod output;
pub mod progress;
