//! What of a tree would lend rights where it is copied to: device nodes, set-user and set-group bits. They stay behind unless the copy was asked for
//! them, for root as for any other user and in every direction, as with a mount that is `nosuid` and `nodev`.

use thalweg_wire::protocol::metadata::NewNode;

const SET_USER: u32 = 0o4000;
const SET_ID: u32 = 0o6000;

/// What a copy leaves out unless it was asked for, or the credential is one that stores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Device nodes.
    pub devices: u64,
    /// Files whose set-user or set-group bits are not those of the source.
    pub set_id_bits: u64,
    /// Entries whose owners were not kept, though that was asked for: the store takes them from its own credential alone.
    pub owners: u64,
}

/// What one copy takes along.
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
    pub(super) fn new(preserve: bool, all: bool, keeps_owners: bool) -> Privileges {
        Privileges { preserve, all, only_own: (!keeps_owners).then(|| rustix::process::geteuid().as_raw()) }
    }

    /// Whether this is not made.
    pub(super) fn leaves_out(&self, node: &NewNode) -> bool {
        !self.all && matches!(node, NewNode::CharacterDevice(_) | NewNode::BlockDevice(_))
    }

    /// What of a mode that is to be kept is kept.
    pub(super) fn of_mode(&self, mode: u32, is_directory: bool) -> u32 {
        // A directory's set-group bit only hands its group down.
        let lends = if is_directory { SET_USER } else { SET_ID };
        if self.preserve && !self.all { mode & !lends } else { mode }
    }

    /// Whether this user's file is to be kept as such, and cannot be.
    pub(super) fn loses_owner(&self, uid: u32) -> bool {
        self.preserve && self.only_own.is_some_and(|own| uid != own)
    }
}
