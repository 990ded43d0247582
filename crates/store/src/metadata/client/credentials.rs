//! Calls about credentials.

use super::MetadataClient;
use crate::error::Result;
use crate::protocol::credentials::{CredentialBook, CredentialOperation};
use crate::protocol::metadata::{MetadataReply, Operation};
use thalweg_trace::Tracer;

impl MetadataClient {
    /// All credentials that were made, after what is asked was done.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Access`] for anybody but the store's own credential; as [`CredentialOperation`] says.
    pub fn credentials(&self, tracer: &mut Tracer, operation: CredentialOperation) -> Result<CredentialBook> {
        match self.ask(tracer, Operation::Credential(operation))? {
            MetadataReply::Credentials(book) => Ok(book),
            other => Err(self.strange(&other)),
        }
    }
}
