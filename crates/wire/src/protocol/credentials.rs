//! Requests about credentials: which were issued, which are revoked. Messages never carry a secret: the issuer derives it from
//! the store's own and reports only the identity.

use crate::trust::{CredentialId, Identity};
use serde::{Deserialize, Serialize};

/// A request about credentials, for the store's own credential only. Reply: [`super::metadata::MetadataReply::Credentials`] with
/// all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CredentialOperation {
    /// Registers a credential that was issued.
    Register(Identity),
    /// Lists all credentials.
    List,
    /// Revokes credentials; durable when answered, and known to every reachable I/O server.
    Revoke(Vec<CredentialId>),
}

/// An issued credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialEntry {
    /// Owner and rights.
    pub identity: Identity,
    /// When it was issued, seconds since 1970.
    pub created_s: u64,
    /// When it was revoked, seconds since 1970.
    pub revoked_s: Option<u64>,
}

/// All issued credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialBook {
    /// In order of issue.
    pub entries: Vec<CredentialEntry>,
    /// I/O servers that do not have the latest revocation yet; they get it when they reconnect.
    pub unaware: Vec<String>,
}

/// The revoked credentials, as sent to I/O servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoked {
    /// Increases with each revocation.
    pub revision: u64,
    /// All revoked credentials.
    pub ids: Vec<CredentialId>,
}
