//! Calls on lots.

use super::MetadataClient;
use thalweg_trace::Tracer;
use thalweg_wire::protocol::lots::{LotOperation, LotReport};
use thalweg_wire::protocol::metadata::{LotId, MetadataReply, Operation};
use thalweg_wire::{Error, ErrorKind, Result};

impl MetadataClient {
    /// Carries out a lot operation; returns the lots involved, with their targets' usage ([`LotOperation`]). Sizes are in bytes, times in
    /// ns.
    ///
    /// # Errors
    /// [`ErrorKind::Access`] naming the lot's owner, [`ErrorKind::NoSpace`] with the sizes and when the lot would fit, ...
    pub fn lots(&self, tracer: &mut Tracer, operation: LotOperation) -> Result<Vec<LotReport>> {
        let only_asks = matches!(operation, LotOperation::Show { .. });
        let operation = Operation::Lot(operation);
        match if only_asks { self.ask(tracer, operation) } else { self.change(tracer, operation) }? {
            MetadataReply::Lots(reports) => Ok(reports),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Returns the number of the lot of this name, for creating files in it.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::Access`].
    pub fn lot_named(&self, tracer: &mut Tracer, name: &str) -> Result<LotId> {
        Ok(self.find_lot(tracer, name)?.lot.id)
    }

    /// Returns the lot of this name without its directories, which the service would have to find among all inodes.
    ///
    /// # Errors
    /// As [`MetadataClient::lot_named`].
    pub fn find_lot(&self, tracer: &mut Tracer, name: &str) -> Result<LotReport> {
        let mut seen = self.lots(tracer, LotOperation::Show { name: None })?;
        if let Some(at) = seen.iter().position(|report| report.lot.name == name) {
            return Ok(seen.swap_remove(at));
        }
        // Find out why: the lot is another owner's, or does not exist.
        let mut found = self.lots(tracer, LotOperation::Show { name: Some(name.to_owned()) })?;
        match found.pop() {
            Some(report) if report.lot.name == name => Ok(report),
            _ => Err(Error::new(ErrorKind::Protocol, "the reply is about another lot").at_server(self.address())),
        }
    }
}
