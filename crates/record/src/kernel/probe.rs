//! Checks whether this machine allows programs in the kernel.

use super::object::descriptor;
use super::tracepoints::Tracepoints;
use super::types::BTF;
use crate::RecordError;
use crate::refusal;
use libbpf_rs::libbpf_sys;

/// Returns the kernel's tracepoints, and those of `functions` that exist, if `who` may load programs and all of
/// `needed` exist.
///
/// # Errors
/// [`RecordError::NotAllowed`] with the reason and what would help.
pub(crate) fn allowed(who: &str, needed: &[&str], functions: &[&'static str]) -> Result<Tracepoints, RecordError> {
    if !std::path::Path::new(BTF).exists() {
        return Err(RecordError::NotAllowed(format!(
            "the kernel has no {BTF}: it was built without CONFIG_DEBUG_INFO_BTF, which {who} needs"
        )));
    }
    if let Err(problem) = ring_buffer() {
        return Err(RecordError::NotAllowed(refusal::of_bpf(&problem)));
    }
    let tracepoints = Tracepoints::of_kernel(functions).map_err(|e| RecordError::NotAllowed(format!("{BTF} cannot be read: {e}")))?;
    match needed.iter().find(|name| !tracepoints.has(name)) {
        Some(name) => Err(RecordError::NotAllowed(format!("the kernel has no tracepoint {name}, which {who} needs"))),
        None => Ok(tracepoints),
    }
}

/// Creates a small ring, to test whether a recorder may create one.
pub(crate) fn ring_buffer() -> std::io::Result<()> {
    // SAFETY: no pointers but the name, which is a C string.
    let made =
        unsafe { libbpf_sys::bpf_map_create(libbpf_sys::BPF_MAP_TYPE_RINGBUF, c"thalweg_probe".as_ptr(), 0, 0, 65_536, std::ptr::null()) };
    descriptor(made).map(drop)
}
