//! How this process holds memory while it reads a recording.

/// What is freed stays with the process up to this size.
const KEPT_BYTES: i32 = 32 << 20;

/// Reading a recording allocates and frees the same two megabytes for each row group. glibc would give them back to the kernel each time and
/// ask for them again, which costs a third of the time. Elsewhere this does nothing.
pub(crate) fn keep_freed() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt takes two numbers, and locks what it changes.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT_BYTES);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
    }
}
