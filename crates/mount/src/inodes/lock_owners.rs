//! Owners of locks: the kernel's numbers for them, and the service's.
//!
//! The kernel makes an owner's number from the address of what the owner has open. When a program ends, that address is free for the next one,
//! and the next one has the same number: before what the first had under way has ended here, and before its locks are freed, if it was killed
//! and is not waited for. Its locks would be taken for the next one's, and freed with it. So each owner has a number of its own at the
//! service, and has left it when its file is closed: an owner with the kernel's number then gets another.

/// The owners that hold locks of one file, or ask for some.
#[derive(Debug, Default)]
pub(crate) struct LockOwners(Vec<Owner>);

#[derive(Debug)]
struct Owner {
    /// The kernel's number.
    kernel: u64,
    /// Of `flock`: the open file whose lock it is. Else of `fcntl`.
    flock: Option<u64>,
    /// The service's.
    number: u64,
    /// It has got a lock.
    granted: bool,
    /// Requests for locks that are under way.
    asking: u32,
}

impl LockOwners {
    /// Nobody holds a lock, as far as is known here.
    pub(crate) fn is_empty(&self) -> bool {
        !self.0.iter().any(|owner| owner.granted)
    }

    /// The service's number of an owner that is known.
    pub(crate) fn number(&self, kernel: u64, flock: Option<u64>) -> Option<u64> {
        self.0.iter().find(|owner| (owner.kernel, owner.flock) == (kernel, flock)).map(|owner| owner.number)
    }

    /// An owner asks for a lock: its number; `fresh`, if it is not known. What comes of it is noted by [`LockOwners::answered`].
    pub(crate) fn ask(&mut self, kernel: u64, flock: Option<u64>, fresh: u64) -> u64 {
        if let Some(known) = self.0.iter_mut().find(|owner| (owner.kernel, owner.flock) == (kernel, flock)) {
            known.asking += 1;
            return known.number;
        }
        self.0.push(Owner { kernel, flock, number: fresh, granted: false, asking: 1 });
        fresh
    }

    /// The owner with this number has got what it asked for, or not. Whether it is one still: its file may have been closed meanwhile.
    pub(crate) fn answered(&mut self, number: u64, granted: bool) -> bool {
        let Some(at) = self.0.iter().position(|owner| owner.number == number) else { return false };
        let owner = &mut self.0[at];
        owner.asking = owner.asking.saturating_sub(1);
        owner.granted |= granted;
        if !owner.granted && owner.asking == 0 {
            self.0.swap_remove(at);
        }
        true
    }

    /// A file is closed by an owner of `fcntl` locks: its number, if it has got some. Nobody has that number any more.
    pub(crate) fn close(&mut self, kernel: u64) -> Option<u64> {
        let at = self.0.iter().position(|owner| owner.kernel == kernel && owner.flock.is_none() && owner.granted)?;
        Some(self.0.swap_remove(at).number)
    }

    /// An open file has gone, through which these have asked: those that still hold locks. Nobody has their numbers any more.
    pub(crate) fn release(&mut self, mut numbers: Vec<u64>) -> Vec<u64> {
        numbers.retain(|number| self.0.iter().any(|owner| owner.number == *number));
        self.0.retain(|owner| !numbers.contains(&owner.number));
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_after_an_owner_that_has_closed_its_file_is_another_owner() {
        let mut owners = LockOwners::default();
        assert_eq!(owners.ask(7, None, 1), 1);
        assert!(owners.is_empty());
        assert!(owners.answered(1, true));
        assert_eq!((owners.number(7, None), owners.is_empty()), (Some(1), false));
        assert_eq!(owners.ask(7, None, 2), 1, "the same, as long as it has it open");
        assert!(owners.answered(1, false));
        assert_eq!(owners.close(7), Some(1));
        assert_eq!((owners.ask(7, None, 3), owners.close(7)), (3, None));
        assert!(owners.answered(3, true));
        assert_eq!(owners.release(vec![1]), [0; 0], "what the first had open goes when the second has come");
        assert_eq!(owners.release(vec![3, 3]), [3, 3]);
        assert_eq!(owners.number(7, None), None);
    }

    #[test]
    fn who_got_nothing_is_forgotten_when_nothing_of_it_is_under_way() {
        let mut owners = LockOwners::default();
        assert_eq!((owners.ask(7, Some(5), 1), owners.ask(7, Some(5), 2), owners.ask(7, None, 3)), (1, 1, 3));
        assert!(owners.answered(1, false));
        assert_eq!(owners.number(7, Some(5)), Some(1));
        assert!(owners.answered(1, false));
        assert_eq!((owners.number(7, Some(5)), owners.number(7, None)), (None, Some(3)));
        assert!(!owners.answered(1, true), "its file was closed meanwhile");
        assert_eq!(owners.close(7), None, "it only asks");
    }
}
