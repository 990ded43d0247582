//! `flock` and `fcntl` locks: kept by the metadata service, so that they hold between machines.
//!
//! Who has got a lock sees what was written before under it: what is kept of the file is looked at anew. Who frees one has
//! everything at the servers first. Locks that were lost because the service was away for long are an error at the next use of
//! the file, until it is closed: what they guarded may have been changed by others.

use crate::errors::{Answered, Refusal};
use crate::filesystem::{Answer, FileSystem, Worker};
use crate::fuse::interrupts::InFlight;
use crate::fuse::reply;
use crate::fuse::request::LockAsked;
use crate::inodes::inode::Inode;
use std::sync::Arc;
use thalweg_store::metadata::locks::client::{Cancel, Wait};
use thalweg_store::protocol::locks::{LockKind, LockRange, LockRequest, LockSpace};

/// The kernel's last byte of however long a file.
const LAST: u64 = i64::MAX as u64;

fn range(inode: &Inode, asked: &LockAsked) -> LockRange {
    let space = if asked.flock { LockSpace::Flock } else { LockSpace::Record };
    let end = if asked.end >= LAST { u64::MAX } else { asked.end };
    LockRange { file: inode.id, space, owner: asked.owner, start: asked.start, end }
}

/// What is asked for; `None`: that it be freed.
fn request(inode: &Inode, asked: &LockAsked) -> Answered<Option<LockRequest>> {
    let kind = match asked.kind as i32 {
        libc::F_RDLCK => LockKind::Shared,
        libc::F_WRLCK => LockKind::Exclusive,
        libc::F_UNLCK => return Ok(None),
        _ => return Err(Refusal::plain(libc::EINVAL)),
    };
    Ok(Some(LockRequest { range: range(inode, asked), kind, pid: asked.pid }))
}

impl FileSystem {
    /// Who stands in the way of a lock.
    pub(crate) fn test_lock(&self, w: &mut Worker, inode: u64, asked: &LockAsked) -> Answered<Answer> {
        let inode = self.inode(inode)?;
        let Some(request) = request(&inode, asked)? else { return Err(Refusal::plain(libc::EINVAL)) };
        match self.locks.test(&mut w.tracer, &request)? {
            None => reply::lock(&mut w.out, asked.start, asked.end, libc::F_UNLCK as u32, 0),
            Some(held) => {
                let kind = if held.kind == LockKind::Shared { libc::F_RDLCK } else { libc::F_WRLCK };
                // A process of another machine has no number here.
                let pid = if held.client == self.locks.number() { held.pid } else { 0 };
                reply::lock(&mut w.out, held.start, held.end.min(LAST), kind as u32, pid);
            }
        }
        Ok(Answer::Out)
    }

    /// Takes a lock, or frees one.
    pub(crate) fn lock(&self, w: &mut Worker, inode: u64, asked: &LockAsked, under_way: &InFlight) -> Answered<Answer> {
        let inode = self.inode(inode)?;
        let tracer = &mut w.tracer;
        let Some(request) = request(&inode, asked)? else {
            if let Some(shared) = inode.shared() {
                self.write_back(tracer, &inode, &shared);
            }
            self.locks.unlock(tracer, &range(&inode, asked))?;
            return Ok(Answer::Done);
        };
        let handle = self.handles.get(asked.handle)?;
        // An exclusive lock may become a shared one: others then see what was written under it.
        self.write_back(tracer, &inode, &handle.shared);
        let cancel = Cancel::new();
        let wait = if asked.wait {
            let fires = cancel.clone();
            under_way.cancels(Arc::new(move || fires.fire()));
            Wait::Until(&cancel)
        } else {
            Wait::No
        };
        self.locks.lock(tracer, &request, wait)?;
        {
            let mut state = inode.state();
            if !state.lock_owners.contains(&asked.owner) {
                state.lock_owners.push(asked.owner);
            }
        }
        let mut owners = handle.lock_owners.lock();
        if !owners.contains(&asked.owner) {
            owners.push(asked.owner);
        }
        drop(owners);
        if let Err(refusal) = self.revalidate(tracer, &inode) {
            let _ = self.locks.unlock(tracer, &request.range);
            return Err(refusal);
        }
        Ok(Answer::Done)
    }

    /// Frees all that an owner here holds of a file.
    pub(crate) fn unlock_owner(&self, w: &mut Worker, inode: &Inode, owner: u64) {
        let held = {
            let mut state = inode.state();
            let place = state.lock_owners.iter().position(|o| *o == owner);
            place.map(|place| state.lock_owners.swap_remove(place)).is_some()
        };
        if held && let Err(error) = self.locks.unlock_all(&mut w.tracer, inode.id, owner) {
            self.log.line(format_args!("locks of {}: {error}", inode.id));
        }
    }

    /// Whether locks that programs here held of a file were lost.
    ///
    /// # Errors
    /// If so.
    pub(crate) fn check_locks(&self, inode: &Inode) -> Answered<()> {
        let any = !inode.state().lock_owners.is_empty();
        if any { Ok(self.locks.check(inode.id)?) } else { Ok(()) }
    }
}
