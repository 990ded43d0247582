//! Operations that do not depend on earlier requests of their client.

use super::MetadataService;
use crate::database::Watch;
use crate::namespace::Removed;
use crate::namespace::caller::Caller;
use crate::namespace::tree::on;
use thalweg_wire::Result;
use thalweg_wire::protocol::metadata::{MetadataReply, Operation, RequestNumber};
use thalweg_wire::trust::Identity;

impl MetadataService {
    /// Leaves the datafiles of a removed file to the background.
    pub(super) fn finish(&self, removed: Removed) {
        removed.0.iter().for_each(|_| self.intents.notify());
    }

    /// Executes operations on names.
    pub(super) fn answer(
        &self,
        who: &Identity,
        number: Option<RequestNumber>,
        operation: Operation,
        watch: &mut dyn Watch,
    ) -> Result<MetadataReply> {
        let (namespace, names) = (&self.namespace, self.namespace.called_by(who).numbered(number));
        Ok(match operation {
            Operation::MakeDirectory { place, owner, parents } => {
                MetadataReply::Attributes(names.make_directory(watch, &place, owner, parents)?)
            }
            Operation::MakeFile { place, owner, existing, layout, node } => {
                let (made, removed) = names.create(watch, &place, owner, existing, &layout, &node)?;
                self.finish(removed);
                MetadataReply::Attributes(made)
            }
            Operation::MakeNode { place, node, owner } => MetadataReply::Attributes(names.make_node(watch, &place, &node, owner)?),
            Operation::Link { file, to } => MetadataReply::Attributes(names.link(watch, &file, &to)?),
            Operation::Exchange { one, other } => {
                names.exchange(watch, &one, &other)?;
                MetadataReply::Done
            }
            Operation::Rename { from, only, to, replace, set } => {
                let (moved, removed) = names.rename(watch, &from, only, &to, replace, &set)?;
                self.finish(removed);
                MetadataReply::Attributes(moved)
            }
            Operation::Unlink { place, only } => {
                names.unlink(watch, &place, only)?;
                self.intents.notify();
                MetadataReply::Done
            }
            Operation::RemoveDirectory { place } => {
                names.remove_directory(watch, &place)?;
                MetadataReply::Done
            }
            Operation::Drafts { after } => {
                let (drafts, more) = self.drafts.list(namespace, after)?;
                MetadataReply::Drafts { drafts, more }
            }
            Operation::RemoveDraft { file, abandoned_for_ns } => {
                self.drafts.remove(&names, watch, file, abandoned_for_ns)?;
                self.intents.notify();
                MetadataReply::Done
            }
            other => self.answer_attributes(&names, other, watch)?,
        })
    }

    /// Executes operations on objects, and on the store.
    fn answer_attributes(&self, names: &Caller<'_>, operation: Operation, watch: &mut dyn Watch) -> Result<MetadataReply> {
        let (namespace, intents) = (&self.namespace, &self.intents);
        Ok(match operation {
            Operation::StoreMap => MetadataReply::Map((*namespace.map()).clone()),
            Operation::Stat { places, sizes } => MetadataReply::Many(self.stat_many(watch, &places, sizes)?),
            Operation::ReadSymlink { place } => MetadataReply::Bytes(namespace.read_symlink(&place)?),
            Operation::GetExtended { place, name } => MetadataReply::Value(namespace.get_extended(&place, &name)?),
            Operation::ListExtended { place } => MetadataReply::ExtendedNames(namespace.list_extended(&place)?),
            Operation::SetExtended { place, name, value, how } => {
                names.set_extended(watch, &place, &name, &value, how)?;
                MetadataReply::Done
            }
            Operation::RemoveExtended { place, name } => {
                names.remove_extended(watch, &place, &name)?;
                MetadataReply::Done
            }
            Operation::SetAttributes { place, set } => MetadataReply::Attributes(names.set_attributes(watch, &place, &set)?),
            Operation::Written { file, size_bytes } => MetadataReply::Attributes(names.written(watch, file, size_bytes)?),
            Operation::Lost { file, lost, mended } => {
                let noted = names.lost(watch, file, (&lost, &mended))?;
                namespace.database().sync(watch)?;
                MetadataReply::Attributes(noted)
            }
            Operation::Relayout { place, layout, node } => {
                let id = namespace.stat(&place)?.id;
                MetadataReply::Attributes(on(&place, intents.relayout(names.who, id, (&layout, &node), watch))?)
            }
            Operation::Truncate { place, size_bytes } => {
                let id = names.may_open(&place, true)?;
                let _turn = on(&place, self.locks.turn(id))?;
                on(&place, intents.truncate_now(id, watch))?;
                let id = names.truncate(watch, &place, size_bytes)?.id;
                on(&place, intents.truncate_now(id, watch))?;
                MetadataReply::Done
            }
            Operation::Sync => {
                self.sync(watch)?;
                MetadataReply::Synced(self.verifier)
            }
            Operation::Status => MetadataReply::Status(self.status()?),
            other => unreachable!("{other:?} is answered by the connection, or is about names"),
        })
    }
}
