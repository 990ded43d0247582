//! What is said about credentials: who was given one, and which are revoked. Never a secret: who makes a credential derives its secret from
//! the store's own, and only says whose it is.

use crate::trust::{CredentialId, Identity};
use serde::{Deserialize, Serialize};

/// What is asked of the metadata service about credentials, only by the store's own: [`super::metadata::MetadataReply::Credentials`] with all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CredentialOperation {
    /// One was made.
    Register(Identity),
    /// Which there are.
    List,
    /// These are refused from now on; durable when it is answered, and known to every I/O server that is in touch.
    Revoke(Vec<CredentialId>),
}

/// A credential that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialEntry {
    /// Whose it is, and what it allows.
    pub identity: Identity,
    /// Made: seconds since 1970.
    pub created_s: u64,
    /// Revoked: seconds since 1970.
    pub revoked_s: Option<u64>,
}

/// All credentials that were made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialBook {
    /// In the order in which they were made.
    pub entries: Vec<CredentialEntry>,
    /// I/O servers that have not heard of the last revocation: they learn of it when they are in touch again.
    pub unaware: Vec<String>,
}

/// What is revoked, for the I/O servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoked {
    /// Grows with each revocation.
    pub revision: u64,
    /// All that were.
    pub ids: Vec<CredentialId>,
}
