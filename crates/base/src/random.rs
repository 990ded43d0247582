//! Random bytes from the kernel.

use std::fs::File;
use std::io::Read;

/// Returns `N` random bytes.
///
/// # Panics
/// If the kernel has no `getrandom` (Linux 3.16 and older) and /dev/urandom cannot be read: a credential must not be made of anything less.
pub fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let mut have = 0;
    while have < N {
        let rest = &mut bytes[have..];
        // By its number: a C library of 2.17 has no function for it.
        // SAFETY: the kernel writes at most `len` bytes to a buffer of that length, which outlives the call.
        let got = unsafe { libc::syscall(libc::SYS_getrandom, rest.as_mut_ptr(), rest.len(), 0) };
        match usize::try_from(got) {
            Ok(got) => have += got,
            Err(_) if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => {
                File::open("/dev/urandom").and_then(|mut file| file.read_exact(rest)).expect("the kernel gives random bytes");
                break;
            }
        }
    }
    bytes
}
