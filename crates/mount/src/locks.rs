//! `flock` and `fcntl` locks: kept by the metadata service, so that they hold between machines.

use crate::errors::{Answered, Refusal};
use crate::filesystem::{Answer, FileSystem, Worker};
use crate::fuse::request::LockAsked;
use crate::interrupts::UnderWay;
use crate::table::Node;

impl FileSystem {
    /// Who stands in the way of a lock.
    pub fn test_lock(&self, _w: &mut Worker, _node: u64, _asked: &LockAsked) -> Answered<Answer> {
        Err(Refusal::plain(libc::ENOSYS))
    }

    /// Takes a lock, or frees one.
    pub fn lock(&self, _w: &mut Worker, _node: u64, _asked: &LockAsked, _under_way: &UnderWay) -> Answered<Answer> {
        Err(Refusal::plain(libc::ENOSYS))
    }

    /// Frees all that an owner here holds of a file.
    pub fn unlock_owner(&self, _w: &mut Worker, _node: &Node, _owner: u64) {}
}
