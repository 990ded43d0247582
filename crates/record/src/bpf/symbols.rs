//! Names of kernel functions, from the kernel itself: one of our programs formats an address. Each is queried once.

use super::load::Programs;
use crate::kernel::ring::text;
use libbpf_rs::libbpf_sys;
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// The layout that the program `name_of` uses.
#[repr(C)]
#[derive(Clone, Copy)]
struct Question {
    address: u64,
    name: [u8; 64],
}

/// Queries names, and caches them.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    program: Option<OwnedFd>,
    known: HashMap<u64, String>,
}

impl Symbols {
    /// Creates a cache that uses the loaded program.
    pub(crate) fn of(programs: &Programs) -> Symbols {
        Symbols { program: programs.program("name_of"), known: HashMap::new() }
    }

    /// Returns the name of the function at this address; empty if the kernel does not say.
    pub(crate) fn name(&mut self, address: u64) -> &str {
        let program = self.program.as_ref();
        self.known.entry(address).or_insert_with(|| program.and_then(|fd| ask(fd, address)).unwrap_or_default())
    }
}

fn ask(program: &OwnedFd, address: u64) -> Option<String> {
    use std::os::fd::AsRawFd;
    let mut question = Question { address, name: [0; 64] };
    // The answer replaces the question.
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as u64,
        ctx_in: (&raw mut question).cast(),
        ctx_size_in: size_of::<Question>() as u32,
        ..Default::default()
    };
    // SAFETY: the descriptor is the program's, and the structures are as large as said.
    let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    if result != 0 {
        return None;
    }
    // `folio_wait_bit_common+0x13a`, with a module's name after it in brackets.
    let whole = text(&question.name);
    let name = whole.split(['+', ' ']).next().unwrap_or_default();
    // The compiler's clones of a function have a suffix.
    Some(name.split('.').next().unwrap_or_default().to_owned())
}
