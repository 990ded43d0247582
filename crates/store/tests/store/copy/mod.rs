//! Copies of files and trees.

mod failures;
mod files;
mod recordings;
mod sparse;
mod trees;
