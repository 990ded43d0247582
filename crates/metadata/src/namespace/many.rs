//! Many operations in one request: executed in order, each with its own outcome, several per transaction.
//!
//! A failed operation is undone back to its start, so it has no effect, and the others stand. A run has at most [`RUN`] operations: a
//! transaction blocks readers, which must not wait for 512 of them. All runs are written together once the last one is ordered, which takes
//! one round trip if the database is remote.

use super::caller::Caller;
use super::tree::*;
use crate::database::{Ordered, Transaction, Watch, order};
use crate::namespace::{Claim, Removed};
use serde::{Deserialize, Serialize};
use thalweg_wire::limits;
use thalweg_wire::protocol::metadata::{Attributes, Existing, FileId, FilePath, Refusal, Small, SmallReply};
use thalweg_wire::protocol::names::split;
use thalweg_wire::{Error, ErrorKind, Result};

/// Bound: operations of a transaction.
const RUN: usize = 32;
/// Bound: bytes of outcomes in a reply, well below a message's body.
const REPLY_BYTES: usize = 512 << 10;

/// The outcomes of many operations.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcomes {
    /// The outcomes in order; operations whose outcomes did not fit in a reply were not started.
    pub each: Vec<Result<SmallReply, Refusal>>,
    /// Files created open, and whether each is a draft.
    pub opened: Vec<(Attributes, bool)>,
    /// Whether there may be something to remove.
    pub removed: bool,
    /// The claims of inodes whose sizes were requested, with the outcome's index.
    #[serde(skip)]
    pub(crate) claims: Vec<(usize, Claim)>,
    /// Files of `opened` that an earlier attempt of the request created.
    #[serde(skip)]
    pub made_before: Vec<FileId>,
}

impl Outcomes {
    /// Appends the next run's outcomes.
    fn add(&mut self, run: Outcomes) {
        self.claims.extend(run.claims.into_iter().map(|(n, claim)| (n + self.each.len(), claim)));
        self.each.extend(run.each);
        self.opened.extend(run.opened);
        self.made_before.extend(run.made_before);
        self.removed |= run.removed;
    }
}

fn refusal(error: &Error) -> Refusal {
    Refusal { errno: error.kind().errno(), message: error.to_string() }
}

impl Caller<'_> {
    /// Executes operations as far as their outcomes fit in a reply.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for no or too many operations. An error of the database; then the state of operations after `each` is
    /// unknown.
    pub(crate) fn many(&self, watch: &mut dyn Watch, operations: &[Small]) -> Result<Outcomes> {
        if operations.is_empty() || operations.len() > limits::MANY {
            return Err(Error::new(ErrorKind::Invalid, format!("{} operations: expected 1 to {}", operations.len(), limits::MANY)));
        }
        let (mut outcomes, mut begun, mut runs) = (Outcomes::default(), Vec::new(), Vec::<Ordered>::new());
        let (mut bytes, mut run_number) = (0, 0_usize);
        let mut ordered = Ok(());
        while ordered.is_ok() && outcomes.each.len() < operations.len() && bytes < REPLY_BYTES {
            let rest = &operations[outcomes.each.len()..];
            let number = u8::try_from(run_number).map_err(|_| Error::new(ErrorKind::Invalid, "too many runs"))?;
            let run = order(&*self.database, |t| {
                let run = self.once(t, number, |t| self.run(t, rest, REPLY_BYTES - bytes, &mut begun))?;
                let before = self.was_done().then(|| run.0.opened.iter().map(|(made, _)| made.id).collect());
                Ok::<_, Error>((Outcomes { made_before: before.unwrap_or_default(), ..run.0 }, run.1))
            });
            run_number += 1;
            ordered = run.map_err(Error::from).and_then(|(run, place)| {
                if !runs.last().is_some_and(|last| last.is_with(&place)) {
                    runs.push(place);
                }
                let (run, run_bytes) = run?;
                bytes += run_bytes;
                outcomes.add(run);
                Ok(())
            });
        }
        let settled = runs.iter().try_for_each(|run| self.database.settle(run, watch).map_err(Error::from));
        let made = if settled.is_ok() { outcomes.opened.iter().map(|(made, _)| made.id).collect() } else { Vec::new() };
        self.not_made(&begun, &made);
        settled?;
        match ordered {
            // Earlier outcomes stand and are returned; the remaining operations get the error.
            Err(error) if !outcomes.each.is_empty() => {
                outcomes.each.push(Err(refusal(&error)));
                Ok(outcomes)
            }
            other => other.map(|()| outcomes),
        }
    }

    /// Executes the first of these operations in one transaction, while their outcomes take less than `room` bytes; returns the outcomes
    /// and their size.
    fn run(&self, t: &mut dyn Transaction, operations: &[Small], room: usize, begun: &mut Vec<FileId>) -> Result<(Outcomes, usize)> {
        let (mut run, mut bytes) = (Outcomes::default(), 0);
        // The directory that successive removals have in common, looked up and marked as changed once.
        let mut leaving: Option<FileId> = None;
        for operation in operations.iter().take(RUN) {
            if leaves(operation).is_none_or(|from| leaving != Some(from)) {
                self.have_left(t, leaving.take())?;
            }
            t.save();
            let done = self.small(t, operation, &mut run, (begun, &mut leaving));
            if done.is_err() {
                t.undo();
            }
            let outcome = done.map_err(|error| refusal(&error));
            bytes += cost_of(&outcome);
            run.each.push(outcome);
            if bytes >= room {
                break;
            }
        }
        self.have_left(t, leaving)?;
        Ok((run, bytes))
    }

    /// Removes a file's name from a directory, and caches the directory in `leaving`. If it is cached already, the place starts there.
    fn leave(&self, t: &mut dyn Transaction, place: &FilePath, only: Option<FileId>, leaving: &mut Option<FileId>) -> Result<Removed> {
        let mut leave = || {
            let (parent, name) = match (&split(&place.path)?[..], *leaving) {
                ([name], Some(known)) => (known, *name),
                _ => find_parent(t, place)?,
            };
            let removed = self.unlink_from(t, (parent, name), only)?;
            *leaving = Some(parent);
            Ok(removed)
        };
        on(place, leave())
    }

    /// Marks a directory as changed after removals from it.
    fn have_left(&self, t: &mut dyn Transaction, left: Option<FileId>) -> Result<()> {
        left.map_or(Ok(()), |directory| touch_directory(t, directory, self.now_ns(), 0))
    }

    fn small(
        &self,
        t: &mut dyn Transaction,
        operation: &Small,
        run: &mut Outcomes,
        (begun, leaving): (&mut Vec<FileId>, &mut Option<FileId>),
    ) -> Result<SmallReply> {
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
                removed(self.leave(t, place, *only, leaving)?);
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

/// Returns the directory of an operation that only removes a file's name.
fn leaves(operation: &Small) -> Option<FileId> {
    match operation {
        Small::Unlink { place, .. } if !place.path.contains(&b'/') => Some(place.from),
        _ => None,
    }
}

fn cost_of(outcome: &Result<SmallReply, Refusal>) -> usize {
    match outcome {
        Ok(SmallReply::Done) => 2,
        Ok(SmallReply::Attributes(attributes)) => attributes_cost(attributes),
        Err(refusal) => refusal.message.len().min(limits::ERROR_TEXT_BYTES) + 16,
    }
}
