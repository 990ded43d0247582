//! The C library that the command starts with: one that is too old is answered with a sentence.

const SENTENCE: &[u8] = b"thalweg: this program needs glibc 2.17 (2012) or newer, and this machine's is older (ldd --version): build thalweg from its sources here, or record on a newer machine\n";

/// A function that glibc has in this version since 2.17. In a release, functions newer than the oldest glibc may be missing when the program is
/// loaded (dist/weaken.py), and are then null.
static NEWEST: Option<unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> libc::c_int> = Some(libc::clock_gettime);

/// Runs before every other initialiser, which might call what is missing.
#[used]
#[unsafe(link_section = ".preinit_array")]
static CHECK: extern "C" fn() = check;

extern "C" fn check() {
    // SAFETY: reads a static of this type. `volatile`, because only the loader knows whether it is null.
    if unsafe { std::ptr::read_volatile(&raw const NEWEST) }.is_none() {
        // SAFETY: the buffer is that long, both functions are in every glibc, and nothing of Rust's runs after them.
        unsafe {
            libc::write(2, SENTENCE.as_ptr().cast(), SENTENCE.len());
            libc::_exit(1);
        }
    }
}
