//! Calls on credentials.

use super::MetadataClient;
use thalweg_trace::Tracer;
use thalweg_wire::Result;
use thalweg_wire::protocol::credentials::{CredentialBook, CredentialOperation};
use thalweg_wire::protocol::metadata::{MetadataReply, Operation};
use thalweg_wire::trust::Rights;

impl MetadataClient {
    /// Whether the service stores owners, set-user bits and devices as given: true with the store's own credential.
    ///
    /// # Errors
    /// As [`thalweg_wire::trust::Credentials::for_store`].
    pub fn stores_privileges(&self) -> Result<bool> {
        let credential = self.inner.options.lock().credentials.for_store(self.map().store)?;
        Ok(credential.identity.rights == Rights::Store)
    }

    /// Carries out the operation and returns all credentials.
    ///
    /// # Errors
    /// [`thalweg_wire::ErrorKind::Access`] unless the client has the store's own credential; otherwise as [`CredentialOperation`]
    /// describes.
    pub fn credentials(&self, tracer: &mut Tracer, operation: CredentialOperation) -> Result<CredentialBook> {
        match self.ask(tracer, Operation::Credential(operation))? {
            MetadataReply::Credentials(book) => Ok(book),
            other => Err(self.unexpected(&other)),
        }
    }
}
