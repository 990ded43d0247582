//! Many operations in one request: each with its own outcome, in order, a run of them in one transaction.
//!
//! A transaction is undone as far as an operation goes that fails, so one that fails leaves nothing behind and the others stand. A run
//! is at most [`RUN`] long: a transaction keeps readers out while it runs, and nobody waits for 512 of them.

use super::caller::Caller;
use super::tree::*;
use crate::error::{Error, ErrorKind, Result};
use crate::limits;
use crate::metadata::database::{Transaction, Watch, write};
use crate::metadata::namespace::{Claim, Removed};
use crate::protocol::metadata::{Attributes, Existing, FileId, Refusal, Small, SmallReply};

/// Operations in one transaction.
const RUN: usize = 32;
/// Bytes of outcomes in one reply, well below a message's body.
const REPLY_BYTES: usize = 512 << 10;

/// What became of many operations.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    /// Each one's, in order; those that did not fit in a reply were not begun.
    pub each: Vec<Result<SmallReply, Refusal>>,
    /// Files that were made to be open, and whether each is a draft.
    pub opened: Vec<(Attributes, bool)>,
    /// Whether there may be something to remove.
    pub removed: bool,
    /// What the inodes say of sizes that were asked for: the outcome's number, and that.
    pub(crate) claims: Vec<(usize, Claim)>,
}

impl Caller<'_> {
    /// Does many operations, as far as their outcomes fit in a reply.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for none or too many. The database's: then nothing is known of those after `each`.
    pub(crate) fn many(&self, watch: &mut dyn Watch, operations: &[Small]) -> Result<Outcomes> {
        if operations.is_empty() || operations.len() > limits::MANY {
            return Err(Error::new(ErrorKind::Invalid, format!("{} operations: 1 to {} are possible", operations.len(), limits::MANY)));
        }
        let (mut outcomes, mut bytes) = (Outcomes::default(), 0);
        while outcomes.each.len() < operations.len() && bytes < REPLY_BYTES {
            let rest = &operations[outcomes.each.len()..];
            let mut begun = Vec::new();
            let run = write(&*self.database, watch, |t| {
                let (mut run, mut room) = (Outcomes::default(), REPLY_BYTES - bytes);
                for operation in rest.iter().take(RUN) {
                    t.save();
                    let done = self.small(t, operation, &mut run, &mut begun);
                    if done.is_err() {
                        t.undo();
                    }
                    let outcome = done.map_err(|e| Refusal { errno: e.kind().errno(), message: e.to_string() });
                    room = room.saturating_sub(cost_of(&outcome));
                    run.each.push(outcome);
                    if room == 0 {
                        break;
                    }
                }
                Ok::<_, Error>((run, REPLY_BYTES - room))
            });
            let opened = run.as_ref().map_or_else(|_| Vec::new(), |(run, _)| run.opened.iter().map(|(made, _)| made.id).collect());
            self.not_made(&begun, &opened);
            let (run, so_far) = match run {
                Ok(run) => run,
                // What was done before stands, and is answered; the rest says why it is not.
                Err(error) if !outcomes.each.is_empty() => {
                    let refusal = Refusal { errno: error.kind().errno(), message: error.to_string() };
                    outcomes.each.push(Err(refusal));
                    return Ok(outcomes);
                }
                Err(error) => return Err(error),
            };
            bytes = so_far;
            outcomes.claims.extend(run.claims.into_iter().map(|(n, claim)| (n + outcomes.each.len(), claim)));
            outcomes.each.extend(run.each);
            outcomes.opened.extend(run.opened);
            outcomes.removed |= run.removed;
        }
        Ok(outcomes)
    }

    fn small(&self, t: &mut dyn Transaction, operation: &Small, run: &mut Outcomes, begun: &mut Vec<FileId>) -> Result<SmallReply> {
        let mut removed = |removed: Removed| run.removed |= removed.0.is_some();
        Ok(match operation {
            Small::Create(new) | Small::MakeFile(new) => {
                let opens = matches!(operation, Small::Create(_));
                let new_file = (new.owner, new.existing, &new.layout, &*new.node);
                let (made, old) = self.create_in(t, &new.place, new_file, opens.then_some(begun))?;
                removed(old);
                if opens {
                    run.opened.push((made.clone(), new.existing == Existing::Draft));
                }
                SmallReply::Attributes(made)
            }
            Small::MakeDirectory { place, owner, parents } => SmallReply::Attributes(self.make_directory_in(t, place, *owner, *parents)?),
            Small::MakeNode { place, node, owner } => SmallReply::Attributes(self.make_node_in(t, place, node, *owner)?),
            Small::Unlink { place, only } => {
                removed(self.unlink_in(t, place, *only)?);
                SmallReply::Done
            }
            Small::RemoveDirectory { place } => {
                self.remove_directory_in(t, place)?;
                SmallReply::Done
            }
            Small::Rename { from, only, to, replace, set } => {
                let (moved, old) = self.rename_in(t, from, *only, to, (*replace, set))?;
                removed(old);
                SmallReply::Attributes(moved)
            }
            Small::SetAttributes { place, set } => SmallReply::Attributes(self.set_attributes_in(t, place, set)?),
            Small::Written { file, size_bytes } => SmallReply::Attributes(self.written_in(t, *file, *size_bytes)?),
            Small::Stat { place, sizes } => {
                let found = on(place, find(t, place).and_then(|id| Ok((id, inode(t, id)?))))?;
                let claim = if *sizes { Claim::of(&found.1) } else { Claim::None };
                run.claims.push((run.each.len(), claim));
                SmallReply::Attributes(found.1.attributes(found.0))
            }
        })
    }
}

fn cost_of(outcome: &Result<SmallReply, Refusal>) -> usize {
    match outcome {
        Ok(SmallReply::Done) => 2,
        Ok(SmallReply::Attributes(attributes)) => attributes_cost(attributes),
        Err(refusal) => refusal.message.len().min(limits::ERROR_TEXT_BYTES) + 16,
    }
}
