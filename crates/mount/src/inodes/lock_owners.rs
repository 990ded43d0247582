//! Lock owners: the kernel's numbers for them, and the service's.
//!
//! The kernel derives an owner's number from the address of its open-files structure. When a program ends, that address, and so the
//! number, may be reused immediately: before the first program's requests have ended here, and before its locks are released if it was
//! killed. Its locks would be taken for the new owner's, and released with them. So each owner gets a separate number at the service,
//! which is retired when its file is closed: a later owner with the same kernel number gets a new one.

/// Owners that hold or request locks of one file.
#[derive(Debug, Default)]
pub(crate) struct LockOwners(Vec<Owner>);

#[derive(Debug)]
struct Owner {
    /// Kernel's number.
    kernel: u64,
    /// For `flock`, the open file that owns the lock; `None` for `fcntl`.
    flock: Option<u64>,
    /// Service's number.
    number: u64,
    /// Whether it acquired a lock.
    granted: bool,
    /// Lock requests in progress.
    asking: u32,
}

impl LockOwners {
    /// Whether no owner is known.
    pub(crate) fn is_empty(&self) -> bool {
        !self.0.iter().any(|owner| owner.granted)
    }

    /// Returns the service's number of a known owner.
    pub(crate) fn number(&self, kernel: u64, flock: Option<u64>) -> Option<u64> {
        self.0.iter().find(|owner| (owner.kernel, owner.flock) == (kernel, flock)).map(|owner| owner.number)
    }

    /// Begins a lock request of an owner; returns its number, which is `fresh` for a new owner. [`LockOwners::answered`] ends it.
    pub(crate) fn ask(&mut self, kernel: u64, flock: Option<u64>, fresh: u64) -> u64 {
        if let Some(known) = self.0.iter_mut().find(|owner| (owner.kernel, owner.flock) == (kernel, flock)) {
            known.asking += 1;
            return known.number;
        }
        self.0.push(Owner { kernel, flock, number: fresh, granted: false, asking: 1 });
        fresh
    }

    /// Ends a lock request of the owner with this number; returns whether the owner still exists: its file may have been closed meanwhile.
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

    /// Retires an owner of `fcntl` locks that closes a file; returns its number if it acquired any.
    pub(crate) fn close(&mut self, kernel: u64) -> Option<u64> {
        let at = self.0.iter().position(|owner| owner.kernel == kernel && owner.flock.is_none() && owner.granted)?;
        Some(self.0.swap_remove(at).number)
    }

    /// Retires the owners that used an open file, now gone; returns those that still hold locks.
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
        assert_eq!(owners.ask(7, None, 2), 1, "the owner keeps its number while the file is open");
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
