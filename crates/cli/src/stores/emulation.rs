//! Notes about emulated devices of a store or a copy.

use crate::session::Session;
use thalweg_base::numbers;
use thalweg_wire::emulate::Emulation;

/// Returns a line about a store's emulated devices.
pub(crate) fn of_store(emulation: &Emulation) -> String {
    format!("the store's devices are emulated: {emulation} (--emulate)")
}

/// Returns a copy's emulated devices, as in its recording: the stores' devices and the source's disk. `None` if there are none.
pub(crate) fn of_copy<'a>(sessions: impl Iterator<Item = &'a Session>, source_bytes_per_s: Option<u64>) -> Option<String> {
    let stores = sessions.filter_map(|session| session.emulated().map(|emulation| emulation.to_string()));
    let source = source_bytes_per_s.map(|rate| format!("source {}", numbers::byte_rate(rate as f64)));
    let all: Vec<String> = stores.take(1).chain(source).collect();
    (!all.is_empty()).then(|| all.join(", "))
}
