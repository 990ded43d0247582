//! Copies of files and trees, and what killed ones leave behind.

mod files;
mod partials;
mod sizeless;
mod sparse;
mod trees;
mod tuned;
