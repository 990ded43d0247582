//! A store's clients for names and bytes.

use super::data::DataClient;
use super::file::StoreFile;
use super::handle::FileHandle;
use super::names::Names;
use std::sync::Arc;
use thalweg_trace::Tracer;
use thalweg_wire::Result;
use thalweg_wire::protocol::metadata::{Attributes, Existing, LayoutChoice};

/// Clients of a store.
#[derive(Clone)]
pub struct Store {
    /// Metadata client.
    pub names: Arc<dyn Names>,
    /// Data client.
    pub data: Arc<DataClient>,
}

impl Store {
    /// Opens an existing file for reading.
    ///
    /// # Errors
    /// The service's, naming the file.
    pub fn open(&self, path: &str) -> Result<StoreFile> {
        let attributes = self.names.open(&mut Tracer::off(), path, false)?;
        self.opened(path, &attributes)
    }

    /// Opens an existing file for writing.
    ///
    /// # Errors
    /// The service's, naming the file.
    pub fn open_to_write(&self, path: &str) -> Result<StoreFile> {
        let attributes = self.names.open(&mut Tracer::off(), path, true)?;
        self.opened(path, &attributes)
    }

    fn opened(&self, path: &str, attributes: &Attributes) -> Result<StoreFile> {
        let handle = FileHandle::from_attributes(path, attributes)?;
        Ok(StoreFile::new(Arc::clone(&self.data), handle).closing(Arc::clone(&self.names)))
    }

    /// Creates a file.
    ///
    /// # Errors
    /// The service's, naming the file.
    pub fn create(&self, path: &str, mode: u32, existing: Existing, layout: &LayoutChoice) -> Result<StoreFile> {
        let attributes = self.names.create(&mut Tracer::off(), path, mode, existing, layout)?;
        self.opened(path, &attributes)
    }
}
