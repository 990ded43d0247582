//! Authentication: credentials, and the mutual proof that opens every connection.

mod credential;
mod find;
mod gate;
mod hex;
mod identity;
pub(crate) mod proof;
mod secret;

pub use credential::{Credential, check_name};
pub use find::{CREDENTIAL_VARIABLE, Credentials, Published, state_directory};
pub use gate::Gate;
pub use gate::now_s;
pub use identity::{CredentialId, Identity, LotBounds, NAME_BYTES, Rights, STORE_OWNER};
