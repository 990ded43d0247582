//! Tunes the allocator for reading recordings.

/// Freed memory kept by the process, in bytes.
const KEPT_BYTES: i32 = 32 << 20;

/// Makes glibc keep freed memory. Reading a recording allocates and frees the same 2 MB for each row group; returning them to the kernel
/// each time costs a third of the run time. Does nothing with other C libraries.
pub(crate) fn keep_freed() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two integers and does its own locking.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
    }
}
