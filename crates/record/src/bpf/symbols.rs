//! Names of the kernel's functions, asked of the kernel itself: a program of ours prints an address. Each is asked for once.

use super::load::Programs;
use crate::kernel::ring::text;
use libbpf_rs::libbpf_sys;
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// As the program `name_of` has it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Question {
    address: u64,
    name: [u8; 64],
}

/// Asks, and remembers.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    program: Option<OwnedFd>,
    known: HashMap<u64, String>,
}

impl Symbols {
    /// With the program that knows.
    pub(crate) fn of(programs: &Programs) -> Symbols {
        Symbols { program: programs.program("name_of"), known: HashMap::new() }
    }

    /// The name of the function at this address; empty where the kernel does not say.
    pub(crate) fn name(&mut self, address: u64) -> &str {
        let program = self.program.as_ref();
        self.known.entry(address).or_insert_with(|| program.and_then(|fd| ask(fd, address)).unwrap_or_default())
    }
}

fn ask(program: &OwnedFd, address: u64) -> Option<String> {
    use std::os::fd::AsRawFd;
    let mut question = Question { address, name: [0; 64] };
    // The answer comes back where the question stood.
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
    // `folio_wait_bit_common+0x13a`, and a module's in brackets after it.
    let whole = text(&question.name);
    let name = whole.split(['+', ' ']).next().unwrap_or_default();
    // The compiler's copies of a function have a suffix.
    Some(name.split('.').next().unwrap_or_default().to_owned())
}
