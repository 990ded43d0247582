//! Who may: credentials, and how both ends of a connection prove that they have one before anything else is said.

mod identity;

pub use identity::{CredentialId, Identity, NAME_BYTES, Rights, STORE_OWNER};
