//! Random bytes from the kernel.

/// Returns `N` random bytes.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let mut have = 0;
    while have < N {
        let rest = &mut bytes[have..];
        // SAFETY: the kernel writes at most `len` bytes to a buffer of that length, which outlives the call.
        let got = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        // (Negative: interrupted by a signal.)
        have += usize::try_from(got).unwrap_or(0);
    }
    bytes
}
