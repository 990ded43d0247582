//! The memory of one request, shared by the connections' threads.

use std::cell::UnsafeCell;
use std::ops::Range;

/// A request's bytes. One thread (the request's) owns the memory and lends it to a flow. Until the flow has ended, the connections'
/// threads read it (a flow into the store) or write disjoint parts of it (a flow out of the store), and the owner does not touch it. The
/// flow keeps it alive.
pub struct RequestMemory {
    bytes: Bytes,
    /// Bytes before the request's own.
    before: usize,
    /// Receives the memory when it is dropped.
    lender: Option<Box<dyn Lender>>,
}

/// A lender of memory.
pub(in crate::files) trait Lender: Send + Sync {
    /// Takes the memory back.
    fn give_back(&self, bytes: Bytes);
}

/// Bytes of which several threads access parts.
pub(in crate::files) type Bytes = Box<[UnsafeCell<u8>]>;

// SAFETY: the bytes are only reachable through the unsafe functions below, whose callers ensure that no thread accesses a part while
// another one writes it.
unsafe impl Sync for RequestMemory {}

impl RequestMemory {
    /// Allocates `length` zeroed bytes.
    pub fn new(length: usize) -> RequestMemory {
        let zeroed: Box<[u8]> = vec![0; length].into_boxed_slice();
        // SAFETY: UnsafeCell<u8> has the layout of u8, and the box is the only owner.
        let bytes = unsafe { Box::from_raw(Box::into_raw(zeroed) as *mut [UnsafeCell<u8>]) };
        RequestMemory { bytes, before: 0, lender: None }
    }

    /// Wraps memory of a budget, with arbitrary content; the first `before` bytes are not part of the request.
    pub(in crate::files) fn lent(bytes: Bytes, before: usize, lender: Box<dyn Lender>) -> RequestMemory {
        RequestMemory { bytes, before, lender: Some(lender) }
    }

    /// Allocates memory for a budget to lend.
    pub(in crate::files) fn to_lend(length: usize) -> Bytes {
        std::mem::take(&mut RequestMemory::new(length).bytes)
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.before
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all of it, preceded by `before` bytes, for its only owner to receive into.
    pub fn received(&mut self, before: usize) -> &mut [u8] {
        let cells = &mut self.bytes[self.before - before..];
        // SAFETY: UnsafeCell<u8> has the layout of u8, and the borrow is exclusive.
        unsafe { &mut *(std::ptr::from_mut(cells) as *mut [u8]) }
    }

    /// Returns the bytes, preceded by `before` bytes.
    ///
    /// # Safety
    /// No thread writes them while the slice is in use.
    pub unsafe fn with_before(&self, before: usize) -> &[u8] {
        let cells = &self.bytes[self.before - before..];
        // SAFETY: in bounds by the slicing above; not written meanwhile, as the caller promises.
        unsafe { std::slice::from_raw_parts(cells.as_ptr().cast(), cells.len()) }
    }

    /// Returns part of it for reading.
    ///
    /// # Safety
    /// No thread writes this part while the slice is in use.
    pub unsafe fn part(&self, range: Range<usize>) -> &[u8] {
        let cells = &self.bytes[self.before..][range];
        // SAFETY: in bounds by the slicing above; not written meanwhile, as the caller promises.
        unsafe { std::slice::from_raw_parts(cells.as_ptr().cast(), cells.len()) }
    }

    /// Returns part of it for writing.
    ///
    /// # Safety
    /// No other thread reads or writes this part while the slice is in use.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn part_mut(&self, range: Range<usize>) -> &mut [u8] {
        let cells = &self.bytes[self.before..][range];
        // SAFETY: in bounds by the slicing above; not accessed by others meanwhile, as the caller promises.
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
