//! Copies of files and trees.

mod failures;
mod files;
mod live;
mod privileges;
mod recordings;
mod sparse;
mod trees;
