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
use std::sync::atomic::Ordering;
use thalweg_client::locks::{Cancel, Wait};
use thalweg_client::wire::protocol::locks::{LockKind, LockRange, LockRequest, LockSpace};

/// The kernel's last byte of however long a file.
const LAST: u64 = i64::MAX as u64;

fn range(inode: &Inode, asked: &LockAsked, owner: u64) -> LockRange {
    let space = if asked.flock { LockSpace::Flock } else { LockSpace::Record };
    let end = if asked.end >= LAST { u64::MAX } else { asked.end };
    LockRange { file: inode.id, space, owner, start: asked.start, end }
}

/// Of `flock`: the open file whose lock it is.
fn flock(asked: &LockAsked) -> Option<u64> {
    asked.flock.then_some(asked.handle)
}

/// What is asked for; `None`: that it be freed.
fn kind(asked: &LockAsked) -> Answered<Option<LockKind>> {
    Ok(match asked.kind as i32 {
        libc::F_RDLCK => Some(LockKind::Shared),
        libc::F_WRLCK => Some(LockKind::Exclusive),
        libc::F_UNLCK => None,
        _ => return Err(Refusal::plain(libc::EINVAL)),
    })
}

impl FileSystem {
    /// Who stands in the way of a lock.
    pub(crate) fn test_lock(&self, w: &mut Worker, inode: u64, asked: &LockAsked) -> Answered<Answer> {
        let inode = self.inode(inode)?;
        let Some(kind) = kind(asked)? else { return Err(Refusal::plain(libc::EINVAL)) };
        let known = inode.state().lock_owners.number(asked.owner, flock(asked));
        let owner = known.unwrap_or_else(|| self.next_lock_owner());
        let request = LockRequest { range: range(&inode, asked, owner), kind, pid: asked.pid };
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
        let Some(kind) = kind(asked)? else {
            if let Some(shared) = inode.shared() {
                self.write_back(tracer, &inode, &shared);
            }
            let known = inode.state().lock_owners.number(asked.owner, flock(asked));
            if let Some(owner) = known {
                self.locks.unlock(tracer, &range(&inode, asked, owner))?;
            }
            return Ok(Answer::Done);
        };
        let handle = self.handles.get(asked.handle)?;
        // An exclusive lock may become a shared one: others then see what was written under it.
        self.write_back(tracer, &inode, &handle.shared);
        let cancel = Cancel::new();
        if asked.wait {
            let fires = cancel.clone();
            under_way.cancels(Arc::new(move || fires.fire()));
        }
        let request = loop {
            let owner = inode.state().lock_owners.ask(asked.owner, flock(asked), self.next_lock_owner());
            let request = LockRequest { range: range(&inode, asked, owner), kind, pid: asked.pid };
            let wait = if asked.wait { Wait::Until(&cancel) } else { Wait::No };
            let locked = self.locks.lock(tracer, &request, wait);
            let is_open = inode.state().lock_owners.answered(owner, locked.is_ok());
            locked?;
            if is_open {
                break request;
            }
            // Another thread of the program has closed the file meanwhile, which frees all that its program had before.
            self.locks.unlock_all(tracer, inode.id, owner)?;
        };
        let mut owners = handle.lock_owners.lock();
        if !owners.contains(&request.range.owner) {
            owners.push(request.range.owner);
        }
        drop(owners);
        if let Err(refusal) = self.revalidate(tracer, &inode) {
            let _ = self.locks.unlock(tracer, &request.range);
            return Err(refusal);
        }
        Ok(Answer::Done)
    }

    /// A number for an owner of locks that has none.
    fn next_lock_owner(&self) -> u64 {
        self.lock_owners.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Frees all that an owner held of a file, by the service's number.
    pub(crate) fn unlock_owner(&self, w: &mut Worker, inode: &Inode, owner: u64) {
        if let Err(error) = self.locks.unlock_all(&mut w.tracer, inode.id, owner) {
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
