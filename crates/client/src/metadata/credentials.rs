//! Calls about credentials.

use super::MetadataClient;
use thalweg_trace::Tracer;
use thalweg_wire::Result;
use thalweg_wire::protocol::credentials::{CredentialBook, CredentialOperation};
use thalweg_wire::protocol::metadata::{MetadataReply, Operation};
use thalweg_wire::trust::Rights;

impl MetadataClient {
    /// Whether what this client stores of owners, set-user bits and devices is stored as it is: its credential is the store's own.
    ///
    /// # Errors
    /// As [`thalweg_wire::trust::Credentials::for_store`].
    pub fn stores_privileges(&self) -> Result<bool> {
        let credential = self.inner.options.lock().credentials.for_store(self.map().store)?;
        Ok(credential.identity.rights == Rights::Store)
    }

    /// All credentials that were made, after what is asked was done.
    ///
    /// # Errors
    /// [`thalweg_wire::ErrorKind::Access`] for anybody but the store's own credential; as [`CredentialOperation`] says.
    pub fn credentials(&self, tracer: &mut Tracer, operation: CredentialOperation) -> Result<CredentialBook> {
        match self.ask(tracer, Operation::Credential(operation))? {
            MetadataReply::Credentials(book) => Ok(book),
            other => Err(self.strange(&other)),
        }
    }
}
