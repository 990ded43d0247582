//! Entries and mode bits of a tree that would grant privileges at the destination: device nodes, set-user and set-group bits. They are
//! left out unless requested, for root as for any user and in every direction, as on a mount that is `nosuid` and `nodev`.

use thalweg_wire::protocol::metadata::NewNode;

const SET_USER: u32 = 0o4000;
const SET_ID: u32 = 0o6000;

/// Counts of what a copy left out, by default or because the credential cannot store it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Device nodes.
    pub devices: u64,
    /// Files that lost set-user or set-group bits.
    pub set_id_bits: u64,
    /// Entries whose owner was to be preserved but is the store credential's instead.
    pub owners: u64,
}

/// Which privileged attributes a copy preserves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Privileges {
    /// Whether mode and owner are preserved.
    preserve: bool,
    /// Whether nothing is left out.
    all: bool,
    /// The user who copies, if entries cannot be given to others.
    only_own: Option<u32>,
}

impl Privileges {
    pub(super) fn new(preserve: bool, all: bool, keeps_owners: bool) -> Privileges {
        Privileges { preserve, all, only_own: (!keeps_owners).then(|| rustix::process::geteuid().as_raw()) }
    }

    /// Whether this node is left out.
    pub(super) fn leaves_out(&self, node: &NewNode) -> bool {
        !self.all && matches!(node, NewNode::CharacterDevice(_) | NewNode::BlockDevice(_))
    }

    /// Returns the part of a mode that is preserved.
    pub(super) fn of_mode(&self, mode: u32, is_directory: bool) -> u32 {
        // A directory's set-group bit only passes its group on to new entries.
        let lends = if is_directory { SET_USER } else { SET_ID };
        if self.preserve && !self.all { mode & !lends } else { mode }
    }

    /// Whether the owner `uid` is to be preserved, and cannot be.
    pub(super) fn loses_owner(&self, uid: u32) -> bool {
        self.preserve && self.only_own.is_some_and(|own| uid != own)
    }
}
