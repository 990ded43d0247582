//! A column of the profile's table.

use thalweg_explain::profile::document::HostProfile;

/// A column of the table: one machine in one recording.
#[derive(Clone, Debug)]
pub struct ProfileColumn<'a> {
    /// Its heading.
    pub name: String,
    /// The machine's profile.
    pub profile: &'a HostProfile,
}
