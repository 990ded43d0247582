//! Listing, finding, summing and removing.

mod flags;
mod trouble;
