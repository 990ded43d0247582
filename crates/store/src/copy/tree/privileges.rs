//! What of a tree would lend rights where it is copied to: device nodes, set-user and set-group bits. They stay behind unless the copy was asked for
//! them, whoever runs it and whichever way it goes, as with a mount that is `nosuid` and `nodev`.

use super::batch::{Batch, Entry, State, What};
use super::{LeftOut, TreeJob};
use crate::protocol::metadata::NewNode;

const SET_USER: u32 = 0o4000;
const SET_ID: u32 = 0o6000;

/// What one copy leaves out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Privileges {
    /// Mode bits and owners are kept.
    preserve: bool,
    /// All that there is, is copied.
    all: bool,
    /// The user who copies, where others cannot be given anything.
    only_own: Option<u32>,
}

impl Privileges {
    pub(super) fn of(job: &TreeJob, keeps_owners: bool) -> Privileges {
        let only_own = (!keeps_owners).then(|| rustix::process::geteuid().as_raw());
        Privileges { preserve: job.preserve, all: job.privileges, only_own }
    }

    /// Leaves out what a batch, which is read, has of them.
    pub(super) fn leave_out(&self, batch: &mut Batch) -> LeftOut {
        let mut left_out = LeftOut::default();
        for entry in batch.entries.iter_mut().filter(|entry| entry.is_open()) {
            if !self.all {
                self.disarm(entry, &mut left_out);
            }
            let is_anothers = self.only_own.is_some_and(|own| entry.item.kept.uid != own);
            left_out.owners += u64::from(self.preserve && entry.is_open() && is_anothers);
        }
        left_out
    }

    fn disarm(&self, entry: &mut Entry, left_out: &mut LeftOut) {
        let lends = match entry.item.what {
            What::Node(NewNode::CharacterDevice(_) | NewNode::BlockDevice(_)) => {
                entry.state = State::LeftOut;
                left_out.devices += 1;
                return;
            }
            // Its set-group bit only hands its group down.
            What::Directory => SET_USER,
            _ => SET_ID,
        };
        if self.preserve && entry.item.kept.mode & lends != 0 {
            entry.item.kept.mode &= !lends;
            left_out.set_id_bits += 1;
        }
    }
}
