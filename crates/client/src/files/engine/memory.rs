//! The memory of one request, worked on by several connections' threads at a time.

use std::cell::UnsafeCell;
use std::ops::Range;

/// A request's bytes. One thread (the request's) owns it, and lends it to a flow: until the flow has ended, connections'
/// threads read it (a flow into the store) or write disjoint parts of it (a flow out of the store), and the owner leaves
/// it alone. The flow keeps it alive.
pub struct RequestMemory {
    bytes: Bytes,
    /// Bytes before its own.
    before: usize,
    /// Who has it back when nobody needs it any more.
    lender: Option<Box<dyn Lender>>,
}

/// Who lends memory, and has it back.
pub(in crate::files) trait Lender: Send + Sync {
    /// Nobody needs it any more.
    fn give_back(&self, bytes: Bytes);
}

/// Bytes that several threads have parts of.
pub(in crate::files) type Bytes = Box<[UnsafeCell<u8>]>;

// SAFETY: the only ways to the bytes are the two unsafe functions below, whose callers see to it that no two threads
// have a part of it at a time when one of them writes.
unsafe impl Sync for RequestMemory {}

impl RequestMemory {
    /// So many bytes, all 0.
    pub fn new(length: usize) -> RequestMemory {
        let zeroed: Box<[u8]> = vec![0; length].into_boxed_slice();
        // SAFETY: UnsafeCell<u8> has the layout of u8, and the box is the only owner.
        let bytes = unsafe { Box::from_raw(Box::into_raw(zeroed) as *mut [UnsafeCell<u8>]) };
        RequestMemory { bytes, before: 0, lender: None }
    }

    /// Memory of a budget's, with whatever is in it; the first `before` bytes do not count.
    pub(in crate::files) fn lent(bytes: Bytes, before: usize, lender: Box<dyn Lender>) -> RequestMemory {
        RequestMemory { bytes, before, lender: Some(lender) }
    }

    /// Memory for a budget to lend.
    pub(in crate::files) fn to_lend(length: usize) -> Bytes {
        std::mem::take(&mut RequestMemory::new(length).bytes)
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.before
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of it, with `before` bytes that stand before it, for its only owner to receive into.
    pub fn received(&mut self, before: usize) -> &mut [u8] {
        let cells = &mut self.bytes[self.before - before..];
        // SAFETY: UnsafeCell<u8> has the layout of u8, and the borrow is exclusive.
        unsafe { &mut *(std::ptr::from_mut(cells) as *mut [u8]) }
    }

    /// The bytes from `before` before it on.
    ///
    /// # Safety
    /// Nobody writes them while the slice is in use.
    pub unsafe fn with_before(&self, before: usize) -> &[u8] {
        let cells = &self.bytes[self.before - before..];
        // SAFETY: in bounds by the slicing above; not written meanwhile, as the caller promises.
        unsafe { std::slice::from_raw_parts(cells.as_ptr().cast(), cells.len()) }
    }

    /// Part of it, for reading.
    ///
    /// # Safety
    /// Nobody writes this part while the slice is in use.
    pub unsafe fn part(&self, range: Range<usize>) -> &[u8] {
        let cells = &self.bytes[self.before..][range];
        // SAFETY: in bounds by the slicing above; not written meanwhile, as the caller promises.
        unsafe { std::slice::from_raw_parts(cells.as_ptr().cast(), cells.len()) }
    }

    /// Part of it, for writing.
    ///
    /// # Safety
    /// Nobody else reads or writes this part while the slice is in use.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn part_mut(&self, range: Range<usize>) -> &mut [u8] {
        let cells = &self.bytes[self.before..][range];
        // SAFETY: in bounds by the slicing above; nobody else's meanwhile, as the caller promises.
        unsafe { std::slice::from_raw_parts_mut(UnsafeCell::raw_get(cells.as_ptr()), cells.len()) }
    }
}

impl Drop for RequestMemory {
    fn drop(&mut self) {
        if let Some(lender) = self.lender.take() {
            lender.give_back(std::mem::take(&mut self.bytes));
        }
    }
}
