//! Listing, finding, adding up and removing.

mod flags;
mod trouble;
