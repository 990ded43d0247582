//! Calls about lots.

use super::MetadataClient;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::lots::{LotOperation, LotReport};
use crate::protocol::metadata::{LotId, MetadataReply, Operation};
use thalweg_trace::Tracer;

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
        let found = self.lots(tracer, LotOperation::Show { name: Some(name.to_owned()) })?;
        match &found[..] {
            [report] if report.lot.name == name => Ok(report.lot.id),
            _ => Err(Error::new(ErrorKind::Protocol, "an answer about another lot").at_server(self.address())),
        }
    }
}
