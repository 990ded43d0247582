//! `flock` and `fcntl` locks: held by the metadata service, so that they work between machines.
//!
//! Acquiring a lock makes earlier writes under it visible: the file's cache is revalidated. Before a release, everything is written to the
//! servers. If locks were lost because the service was away for too long, the next use of the file fails until it is closed: other clients
//! may have changed what the locks protected.

use crate::errors::{HandlerResult, Refusal};
use crate::filesystem::{Answer, FileSystem, Worker};
use crate::fuse::interrupts::InFlight;
use crate::fuse::reply;
use crate::fuse::request::LockCall;
use crate::inodes::inode::Inode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use thalweg_client::locks::{Cancel, Wait};
use thalweg_client::wire::protocol::locks::{LockKind, LockRange, LockRequest, LockSpace};

/// The kernel's end offset of a lock to the end of file.
const LAST: u64 = i64::MAX as u64;

fn range(inode: &Inode, asked: &LockCall, owner: u64) -> LockRange {
    let space = if asked.flock { LockSpace::Flock } else { LockSpace::Record };
    let end = if asked.end >= LAST { u64::MAX } else { asked.end };
    LockRange { file: inode.id, space, owner, start: asked.start, end }
}

/// Returns, for `flock`, the open file that owns the lock.
fn flock(asked: &LockCall) -> Option<u64> {
    asked.flock.then_some(asked.handle)
}

/// Returns the kind of lock requested; `None`: a release.
fn kind(asked: &LockCall) -> HandlerResult<Option<LockKind>> {
    Ok(match asked.kind as i32 {
        libc::F_RDLCK => Some(LockKind::Shared),
        libc::F_WRLCK => Some(LockKind::Exclusive),
        libc::F_UNLCK => None,
        _ => return Err(Refusal::plain(libc::EINVAL)),
    })
}

impl FileSystem {
    /// Returns a conflicting lock.
    pub(crate) fn test_lock(&self, w: &mut Worker, inode: u64, asked: &LockCall) -> HandlerResult<Answer> {
        let inode = self.inode(inode)?;
        let Some(kind) = kind(asked)? else { return Err(Refusal::plain(libc::EINVAL)) };
        let known = inode.state().lock_owners.number(asked.owner, flock(asked));
        let owner = known.unwrap_or_else(|| self.next_lock_owner());
        let request = LockRequest { range: range(&inode, asked, owner), kind, pid: asked.pid };
        match self.locks.test(&mut w.tracer, &request)? {
            None => reply::lock(&mut w.out, asked.start, asked.end, libc::F_UNLCK as u32, 0),
            Some(held) => {
                let kind = if held.kind == LockKind::Shared { libc::F_RDLCK } else { libc::F_WRLCK };
                // A process of another machine has no PID here.
                let pid = if held.client == self.locks.number() { held.pid } else { 0 };
                reply::lock(&mut w.out, held.start, held.end.min(LAST), kind as u32, pid);
            }
        }
        Ok(Answer::Out)
    }

    /// Acquires or releases a lock.
    pub(crate) fn lock(&self, w: &mut Worker, inode: u64, asked: &LockCall, under_way: &InFlight) -> HandlerResult<Answer> {
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
        // Also on a downgrade to a shared lock: other clients then see what was written under the exclusive one.
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
            // Another thread of the program closed the file meanwhile, which releases all earlier locks of the program.
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

    /// Returns a new number for a lock owner.
    fn next_lock_owner(&self) -> u64 {
        self.lock_owners.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Releases all locks of an owner on a file, by the service's owner number.
    pub(crate) fn unlock_owner(&self, w: &mut Worker, inode: &Inode, owner: u64) {
        if let Err(error) = self.locks.unlock_all(&mut w.tracer, inode.id, owner) {
            self.log.line(format_args!("locks of {}: {error}", inode.id));
        }
    }

    /// Checks whether locks of programs here on a file were lost.
    ///
    /// # Errors
    /// When locks were lost.
    pub(crate) fn check_locks(&self, inode: &Inode) -> HandlerResult<()> {
        let any = !inode.state().lock_owners.is_empty();
        if any { Ok(self.locks.check(inode.id)?) } else { Ok(()) }
    }
}
