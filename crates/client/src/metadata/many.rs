//! Many operations in few requests.

use super::connections::Slot;
use super::{MetadataClient, OpenFile};
use thalweg_base::sync::Held;
use thalweg_trace::Tracer;
use thalweg_wire::limits;
use thalweg_wire::protocol::metadata::{
    Attributes, End, Existing, FilePath, LayoutChoice, MetadataReply, NewFile, NewNode, Operation, Owner, Refusal, SetAttributes, Small,
    SmallReply,
};
use thalweg_wire::{Error, ErrorKind, Result};

/// Maximum bytes of a batched request, well below a message's limit.
const REQUEST_BYTES: usize = 512 << 10;

/// Result of one operation of a batch.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "most are the large one, in one list")]
pub enum SmallDone {
    /// Done, without attributes.
    Done,
    /// Attributes of the entry made, changed or queried.
    Attributes(Attributes),
    /// A new file, open for writing until [`OpenFile::ended`].
    Opened(OpenFile),
}

impl MetadataClient {
    /// Returns the description of a new file, for [`Small::Create`] or [`Small::MakeFile`].
    pub fn new_file(&self, place: FilePath, owner: Owner, existing: Existing, layout: &LayoutChoice) -> NewFile {
        NewFile { place, owner, existing, layout: layout.clone(), node: self.inner.node.clone() }
    }

    /// Carries out many operations in order, in as few requests as possible, and reports in the same requests the end of files opened
    /// here. One result per operation: a failure does not stop the others. If the connection breaks, the outcome of operations in flight
    /// is unknown, and the rest are not carried out.
    pub fn many(&self, tracer: &mut Tracer, operations: &[Small], ended: Vec<(OpenFile, End)>) -> Vec<Result<SmallDone>> {
        // The files made by one call are open on one connection, which must also report their ends.
        let (number, mut slot) = match ended.first() {
            Some((file, _)) => (file.slot, self.inner.slots[file.slot].lock()),
            None => self.inner.free_slot(),
        };
        let (here, elsewhere): (Vec<_>, Vec<_>) = ended.into_iter().partition(|(file, _)| file.slot == number);
        for (mut file, end) in here {
            file.end = None;
            slot.close(file.kept(), end);
        }
        let mut each = Vec::with_capacity(operations.len());
        while each.len() < operations.len() {
            let rest = &operations[each.len()..];
            let mut bytes = 0;
            let fits = rest.iter().take(limits::MANY).take_while(|operation| {
                bytes += cost(operation);
                bytes <= REQUEST_BYTES
            });
            // A single operation always fits in a message.
            let some = &rest[..fits.count().max(1)];
            match self.some(tracer, some, &mut slot, number) {
                Ok(done) => each.extend(done),
                Err(error) => each.resize_with(operations.len(), || Err(error.clone())),
            }
        }
        drop(slot);
        // Files open on other connections.
        elsewhere.into_iter().for_each(|(file, end)| file.ended(end));
        each
    }

    /// Sends as many operations as the service accepts, at least one.
    fn some(&self, tracer: &mut Tracer, some: &[Small], slot: &mut Held<'_, Slot>, number: usize) -> Result<Vec<Result<SmallDone>>> {
        let reply = self.inner.changing(slot, tracer, Operation::Many { operations: some.to_vec() }, None)?;
        let MetadataReply::Each(each) = reply else { return Err(self.unexpected(&reply)) };
        if each.is_empty() || each.len() > some.len() {
            return Err(Error::new(ErrorKind::Protocol, "the reply does not match the request").at_server(self.address()));
        }
        let done = some.iter().zip(each).map(|(operation, outcome)| match (operation, outcome) {
            (Small::Create(_), Ok(SmallReply::Attributes(made))) => self.opened(made, slot, number, true).map(SmallDone::Opened),
            (_, Ok(SmallReply::Done)) => Ok(SmallDone::Done),
            (_, Ok(SmallReply::Attributes(attributes))) => Ok(SmallDone::Attributes(attributes)),
            (_, Err(Refusal { errno, message })) => Err(Error::new(ErrorKind::from_errno(errno), message)),
        });
        Ok(done.collect())
    }
}

/// Returns an upper estimate of an operation's bytes in a message.
fn cost(operation: &Small) -> usize {
    let choice = |layout: &LayoutChoice| {
        let spec = layout
            .spec
            .as_ref()
            .map_or(0, |spec| spec.name.len() + spec.parameters.iter().map(|(key, value)| key.len() + value.len() + 6).sum::<usize>());
        let placement = match &layout.placement {
            Some(thalweg_wire::protocol::metadata::Placement::Targets(targets)) => 5 * targets.len(),
            _ => 8,
        };
        spec + placement + 16
    };
    let set = |set: &SetAttributes| 48 + set.default_layout.as_ref().and_then(Option::as_ref).map_or(0, choice);
    let place = |place: &FilePath| place.path.len() + 16;
    32 + match operation {
        Small::Create(new) | Small::MakeFile(new) => place(&new.place) + choice(&new.layout) + new.node.len(),
        Small::Rename { from, to, set: changes, .. } => place(from) + place(to) + set(changes),
        Small::SetAttributes { place: of, set: changes } => place(of) + set(changes),
        Small::MakeDirectory { place: of, .. }
        | Small::Unlink { place: of, .. }
        | Small::RemoveDirectory { place: of }
        | Small::Stat { place: of, .. } => place(of),
        Small::MakeNode { place: of, node, .. } => place(of) + if let NewNode::Symlink(target) = node { target.len() } else { 8 },
        Small::Written { .. } => 0,
    }
}
