//! Lots of directories (`user.thalweg.lot`): the lot, by name, for new files and directories in a directory.
//!
//! Like the other synthetic attributes, it is not returned by `listxattr`: otherwise `mv` and `cp -a` would copy it, and files moved out
//! of a lot would still draw on it.

use crate::errors::{HandlerResult, Refusal};
use crate::filesystem::{Answer, FileSystem, Worker};
use crate::inodes::inode::Inode;
use thalweg_client::wire::ErrorKind;
use thalweg_client::wire::protocol::lots::{LotOperation, LotReport};
use thalweg_client::wire::protocol::metadata::{Attributes, FileKind, FilePath, LayoutChoice, LotId, SetAttributes};

/// Returns the lot of a file, or for new entries of a directory.
pub(super) fn lot_of(attributes: &Attributes) -> Option<LotId> {
    let of_file = attributes.layout.as_ref().and_then(|layout| layout.lot);
    of_file.or(attributes.default_layout.as_ref().and_then(|choice| choice.lot))
}

impl FileSystem {
    /// Returns the service's report on a lot. `None`: the lot was removed, or is another owner's.
    pub(super) fn lot_report(&self, w: &mut Worker, lot: LotId) -> HandlerResult<Option<LotReport>> {
        let all = self.names.lots(&mut w.tracer, LotOperation::Show { name: None })?;
        Ok(all.into_iter().find(|report| report.lot.id == lot))
    }

    /// Returns a lot's name, or its number if its name may not be seen.
    pub(super) fn lot_name(&self, w: &mut Worker, lot: LotId) -> HandlerResult<String> {
        Ok(self.lot_report(w, lot)?.map_or_else(|| format!("#{lot}"), |report| report.lot.name))
    }

    /// Sets the lot for new entries of a directory. A refusal's reason can be read afterwards.
    pub(super) fn set_lot(&self, w: &mut Worker, inode: &Inode, value: &[u8]) -> HandlerResult<Answer> {
        inode.state().layout_error = None;
        if inode.kind != FileKind::Directory {
            return Err(self.refuse_layout(
                inode,
                "a file's lot cannot be changed: copy the file into a directory of the other lot",
                libc::EPERM,
            ));
        }
        let name = match std::str::from_utf8(value) {
            Ok(text) => text.trim_end_matches(['\0', '\n']),
            Err(_) => return Err(self.refuse_layout(inode, "it is not UTF-8 text", libc::EINVAL)),
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

    /// Changes a directory's default layout for new entries. (Of two concurrent changes, one may be lost.)
    pub(super) fn change_default(&self, w: &mut Worker, inode: &Inode, change: impl FnOnce(&mut LayoutChoice)) -> HandlerResult<Answer> {
        let place = FilePath::of(inode.id);
        let before = self.names.stat(&mut w.tracer, &place).map_err(|e| Refusal::from(e).of_known_file())?.default_layout;
        let mut choice = before.clone().unwrap_or_default();
        change(&mut choice);
        let after = (choice != LayoutChoice::default()).then_some(choice);
        if after == before {
            return Ok(Answer::Done);
        }
        let set = SetAttributes { default_layout: Some(after), ..SetAttributes::default() };
        let attributes = self.names.set_attributes(&mut w.tracer, &place, &set).map_err(|error| {
            // EACCES does not name the directory's owner.
            let cause = (error.kind() == ErrorKind::Access).then(|| error.clone());
            let refusal = Refusal::from(error).of_known_file();
            Refusal { cause: cause.or(refusal.cause), ..refusal }
        })?;
        inode.changed_here(&attributes);
        Ok(Answer::Done)
    }

    /// Creates a refusal and keeps its reason, for `user.thalweg.error` and the log.
    pub(super) fn refuse_layout(&self, inode: &Inode, reason: &str, errno: i32) -> Refusal {
        self.log.line(format_args!("layout of {}: {reason}", inode.id));
        inode.state().layout_error = Some(reason.into());
        Refusal::plain(errno)
    }
}
