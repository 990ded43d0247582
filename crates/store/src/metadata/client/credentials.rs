//! Calls about credentials.

use super::MetadataClient;
use crate::error::Result;
use crate::protocol::credentials::{CredentialBook, CredentialOperation};
use crate::protocol::metadata::{MetadataReply, Operation};
use crate::trust::Rights;
use thalweg_trace::Tracer;

impl MetadataClient {
    /// Whether what this client stores of owners, set-user bits and devices is stored as it is: its credential is the store's own.
    ///
    /// # Errors
    /// As [`crate::trust::Credentials::for_store`].
    pub fn stores_privileges(&self) -> Result<bool> {
        let credential = self.inner.options.lock().credentials.for_store(self.map().store)?;
        Ok(credential.identity.rights == Rights::Store)
    }

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
