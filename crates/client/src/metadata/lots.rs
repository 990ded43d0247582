//! Calls about lots.

use super::MetadataClient;
use thalweg_trace::Tracer;
use thalweg_wire::protocol::lots::{LotOperation, LotReport};
use thalweg_wire::protocol::metadata::{LotId, MetadataReply, Operation};
use thalweg_wire::{Error, ErrorKind, Result};

impl MetadataClient {
    /// Does what is asked about lots; the lots it was about, with what their targets say of them ([`LotOperation`]). Sizes are bytes, times
    /// nanoseconds.
    ///
    /// # Errors
    /// [`ErrorKind::Access`] that names the lot's owner, [`ErrorKind::NoSpace`] with the numbers and when it would fit, ...
    pub fn lots(&self, tracer: &mut Tracer, operation: LotOperation) -> Result<Vec<LotReport>> {
        let only_asks = matches!(operation, LotOperation::Show { .. });
        let operation = Operation::Lot(operation);
        match if only_asks { self.ask(tracer, operation) } else { self.change(tracer, operation) }? {
            MetadataReply::Lots(reports) => Ok(reports),
            other => Err(self.strange(&other)),
        }
    }

    /// The number of the lot of this name, to make files in it.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::Access`].
    pub fn lot_named(&self, tracer: &mut Tracer, name: &str) -> Result<LotId> {
        Ok(self.find_lot(tracer, name)?.lot.id)
    }

    /// The lot of this name, without its directories, for which the service would look at all inodes.
    ///
    /// # Errors
    /// As [`MetadataClient::lot_named`].
    pub fn find_lot(&self, tracer: &mut Tracer, name: &str) -> Result<LotReport> {
        let mut seen = self.lots(tracer, LotOperation::Show { name: None })?;
        if let Some(at) = seen.iter().position(|report| report.lot.name == name) {
            return Ok(seen.swap_remove(at));
        }
        // Why not: it is another owner's, or there is none.
        let mut found = self.lots(tracer, LotOperation::Show { name: Some(name.to_owned()) })?;
        match found.pop() {
            Some(report) if report.lot.name == name => Ok(report),
            _ => Err(Error::new(ErrorKind::Protocol, "an answer about another lot").at_server(self.address())),
        }
    }
}
