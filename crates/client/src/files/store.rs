//! A store: its names and its bytes.

use super::data::DataClient;
use super::file::StoreFile;
use super::handle::FileHandle;
use super::names::Names;
use std::sync::Arc;
use thalweg_trace::Tracer;
use thalweg_wire::Result;
use thalweg_wire::protocol::metadata::{Attributes, Existing, LayoutChoice};

/// A store: its names and its bytes.
#[derive(Clone)]
pub struct Store {
    /// The names.
    pub names: Arc<dyn Names>,
    /// The bytes.
    pub data: Arc<DataClient>,
}

impl Store {
    /// An existing file, to be read.
    ///
    /// # Errors
    /// The service's, naming the file.
    pub fn open(&self, path: &str) -> Result<StoreFile> {
        let attributes = self.names.open(&mut Tracer::off(), path, false)?;
        self.opened(path, &attributes)
    }

    /// An existing file, to be written.
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

    /// A new file.
    ///
    /// # Errors
    /// The service's, naming the file.
    pub fn create(&self, path: &str, mode: u32, existing: Existing, layout: &LayoutChoice) -> Result<StoreFile> {
        let attributes = self.names.create(&mut Tracer::off(), path, mode, existing, layout)?;
        self.opened(path, &attributes)
    }
}
