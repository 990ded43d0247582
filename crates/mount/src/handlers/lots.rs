//! Lots of directories (`user.thalweg.lot`): which one new files and directories in one go to, by its name.
//!
//! It is no attribute that `listxattr` names, like the others that are made up here: `mv` and `cp -a` would carry it along, and what is moved
//! out of a lot would go on drawing on it.

use crate::errors::{Answered, Refusal};
use crate::filesystem::{Answer, FileSystem, Worker};
use crate::inodes::inode::Inode;
use thalweg_client::wire::ErrorKind;
use thalweg_client::wire::protocol::lots::{LotOperation, LotReport};
use thalweg_client::wire::protocol::metadata::{Attributes, FileKind, LayoutChoice, LotId, Place, SetAttributes};

/// The lot of a file, or of what is made in a directory.
pub(super) fn lot_of(attributes: &Attributes) -> Option<LotId> {
    let of_file = attributes.layout.as_ref().and_then(|layout| layout.lot);
    of_file.or(attributes.default_layout.as_ref().and_then(|choice| choice.lot))
}

impl FileSystem {
    /// What the service says of a lot. `None`: it is gone, or another owner's.
    pub(super) fn lot_report(&self, w: &mut Worker, lot: LotId) -> Answered<Option<LotReport>> {
        let all = self.names.lots(&mut w.tracer, LotOperation::Show { name: None })?;
        Ok(all.into_iter().find(|report| report.lot.id == lot))
    }

    /// What a lot is called; one that may not be seen has only its number.
    pub(super) fn lot_name(&self, w: &mut Worker, lot: LotId) -> Answered<String> {
        Ok(self.lot_report(w, lot)?.map_or_else(|| format!("#{lot}"), |report| report.lot.name))
    }

    /// From now on what is made in a directory is in this lot. Why it is refused can be asked for.
    pub(super) fn set_lot(&self, w: &mut Worker, inode: &Inode, value: &[u8]) -> Answered<Answer> {
        inode.state().layout_error = None;
        if inode.kind != FileKind::Directory {
            return Err(self.refuse_layout(
                inode,
                "a file stays in the lot that it was made in: copy it into a directory of another",
                libc::EPERM,
            ));
        }
        let name = match std::str::from_utf8(value) {
            Ok(text) => text.trim_end_matches(['\0', '\n']),
            Err(_) => return Err(self.refuse_layout(inode, "it is no text", libc::EINVAL)),
        };
        let lot = match self.names.lot_named(&mut w.tracer, name) {
            Ok(lot) => lot,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(self.refuse_layout(inode, error.message(), libc::EINVAL)),
            Err(error) if error.kind() == ErrorKind::Access => return Err(self.refuse_layout(inode, error.message(), libc::EACCES)),
            Err(error) => return Err(error.into()),
        };
        match self.change_default(w, inode, |choice| choice.lot = Some(lot)) {
            Err(refusal) if refusal.cause.is_some() => {
                let reason = refusal.cause.as_ref().map_or("", |cause| cause.message());
                Err(self.refuse_layout(inode, reason, refusal.errno))
            }
            other => other,
        }
    }

    /// Changes what a directory says of what is made in it. (Of two who change it at the same time, one may be lost.)
    pub(super) fn change_default(&self, w: &mut Worker, inode: &Inode, change: impl FnOnce(&mut LayoutChoice)) -> Answered<Answer> {
        let place = Place::of(inode.id);
        let before = self.names.stat(&mut w.tracer, &place).map_err(|e| Refusal::from(e).of_known_file())?.default_layout;
        let mut choice = before.clone().unwrap_or_default();
        change(&mut choice);
        let after = (choice != LayoutChoice::default()).then_some(choice);
        if after == before {
            return Ok(Answer::Done);
        }
        let set = SetAttributes { default_layout: Some(after), ..SetAttributes::default() };
        let attributes = self.names.set_attributes(&mut w.tracer, &place, &set).map_err(|error| {
            // Whose the directory is, EACCES does not say.
            let cause = (error.kind() == ErrorKind::Access).then(|| error.clone());
            let refusal = Refusal::from(error).of_known_file();
            Refusal { cause: cause.or(refusal.cause), ..refusal }
        })?;
        inode.changed_here(&attributes);
        Ok(Answer::Done)
    }

    /// A refusal whose reason is remembered, for `user.thalweg.error`, and logged.
    pub(super) fn refuse_layout(&self, inode: &Inode, reason: &str, errno: i32) -> Refusal {
        self.log.line(format_args!("layout of {}: {reason}", inode.id));
        inode.state().layout_error = Some(reason.into());
        Refusal::plain(errno)
    }
}
