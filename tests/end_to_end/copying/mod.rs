//! Copies of files and trees, and the leftovers of killed copies.

mod damaged;
mod files;
mod partials;
mod scrub;
mod sizeless;
mod sparse;
mod trees;
mod tuned;
mod ways;
