//! What a column shows.

use thalweg_explain::profile::document::HostProfile;

/// A column of the table: one machine in one recording.
#[derive(Clone, Debug)]
pub struct ProfileColumn<'a> {
    /// What stands above it.
    pub name: String,
    /// What it shows.
    pub profile: &'a HostProfile,
}
