//! Classifies waits by the kernel functions in which the thread slept, where its call and descriptor do not show the
//! cause.
//!
//! Lock functions are not listed: the kernel omits the scheduler's own functions from a stack, and counts lock
//! functions among them. So a thread that slept uninterruptibly in a function not known for sleeping, until another
//! program's thread woke it, waited for a lock that the other held.

use super::waits::{On, Wait};
use thalweg_trace::{ObjectKind, SpanKind};

/// The wait that each function reveals. The first match, from the innermost on, decides.
const REVEALING: &[(&str, SpanKind, On)] = &[
    ("futex_", SpanKind::WaitLock, On::Named(ObjectKind::Lock, "futex")),
    ("locks_lock_inode_wait", SpanKind::WaitLock, On::FileLock(0)),
    ("fcntl_setlk", SpanKind::WaitLock, On::FileLock(0)),
    ("do_wait", SpanKind::WaitLock, On::Child),
    ("wait_for_vfork_done", SpanKind::WaitLock, On::Child),
    ("kernel_clone", SpanKind::WaitLock, On::Child),
    ("anon_pipe_", SpanKind::WaitLock, On::Other(0)),
    ("pipe_", SpanKind::WaitLock, On::Other(0)),
    ("wait_for_partner", SpanKind::WaitLock, On::Fifo),
    ("fifo_open", SpanKind::WaitLock, On::Fifo),
    ("unix_", SpanKind::WaitLock, On::Other(0)),
    ("n_tty_", SpanKind::WaitLock, On::Other(0)),
    ("hrtimer_nanosleep", SpanKind::WaitTimer, On::Nothing),
    ("do_nanosleep", SpanKind::WaitTimer, On::Nothing),
    ("jbd2_log_wait_commit", SpanKind::FileSync, On::Nothing),
    ("balance_dirty_pages", SpanKind::WaitMemory, On::Nothing),
    ("try_to_free_pages", SpanKind::WaitMemory, On::Nothing),
    ("shrink_", SpanKind::WaitMemory, On::Nothing),
    ("folio_wait_", SpanKind::WaitDisk, On::Nothing),
    ("submit_bio_wait", SpanKind::WaitDisk, On::Nothing),
    ("blk_", SpanKind::WaitDisk, On::Nothing),
];

/// Functions in which waits are ended by others as a matter of course: the call says what they are for.
const ANSWERED: &[&str] = &["request_wait_answer", "fuse_", "__fuse_", "nfs", "rpc_", "wait_on_page", "wb_wait_for_completion"];

/// The evidence of a sleep's site about the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Site {
    /// It waited for this.
    Known(Wait),
    /// The call decides.
    AsCalled,
    /// Nothing is known.
    Unknown,
}

/// Classifies a site by its functions, innermost first.
pub(super) fn of_functions<'a>(names: impl Iterator<Item = &'a str>) -> Site {
    let known = |name: &str| {
        if ANSWERED.iter().any(|start| name.starts_with(start)) {
            return Some(Site::AsCalled);
        }
        REVEALING.iter().find(|(start, _, _)| name.starts_with(start)).map(|(_, kind, on)| Site::Known((*kind, *on)))
    };
    names.map(known).find_map(|found| found).unwrap_or(Site::Unknown)
}

/// Returns the wait as recorded: call and descriptor decide, unless they show nothing, or the thread slept for memory
/// or for a kernel lock of another program on its way.
pub(super) fn corrected(by_call: Wait, site: Option<Site>) -> Wait {
    match site {
        Some(Site::Known(wait)) if by_call.0 == SpanKind::WaitOther => wait,
        // Its other side has not been opened.
        Some(Site::Known((_, On::Fifo | On::Other(0)))) if by_call.0 == SpanKind::FileOpen => (SpanKind::WaitLock, On::Fifo),
        Some(Site::Known((SpanKind::WaitMemory, _))) => (SpanKind::WaitMemory, by_call.1),
        Some(Site::Unknown) if by_call.1 == On::Nothing || by_call.0 != SpanKind::WaitLock => {
            (SpanKind::WaitLock, On::Named(ObjectKind::Lock, "kernel"))
        }
        _ => by_call,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_revealing_function_decides_and_the_call_stands_where_it_is_known() {
        let site = |names: &[&'static str]| Some(of_functions(names.iter().copied()));
        let disk = site(&["folio_wait_bit", "filemap_read", "vfs_read"]);
        assert_eq!(corrected((SpanKind::FileRead, On::File(0)), disk), (SpanKind::FileRead, On::File(0)));
        assert_eq!(corrected((SpanKind::WaitOther, On::Nothing), disk), (SpanKind::WaitDisk, On::Nothing));
        let lock = (SpanKind::WaitLock, On::Named(ObjectKind::Lock, "kernel"));
        assert_eq!(corrected((SpanKind::FileStat, On::Nothing), site(&["lookup_slow", "walk_component"])), lock);
        let answered = site(&["request_wait_answer", "fuse_lookup", "lookup_slow"]);
        assert_eq!(corrected((SpanKind::FileStat, On::Nothing), answered), (SpanKind::FileStat, On::Nothing));
        assert_eq!(corrected((SpanKind::FileStat, On::Nothing), None), (SpanKind::FileStat, On::Nothing));
        let fifo = site(&["pipe_wait", "wait_for_partner", "fifo_open", "do_dentry_open"]);
        assert_eq!(corrected((SpanKind::FileOpen, On::Path), fifo), (SpanKind::WaitLock, On::Fifo));
    }
}
