//! What is said of devices that a store, or a copy, pretends to have.

use crate::session::Session;
use thalweg_base::numbers;
use thalweg_wire::emulate::Emulation;

/// Of a store, in a line for a person.
pub(crate) fn of_store(emulation: &Emulation) -> String {
    format!("the store's devices are emulated: {emulation} (--emulate)")
}

/// What a copy pretends to have, as in its recording: the store's devices, and the source's disk.
pub(crate) fn of_copy<'a>(sessions: impl Iterator<Item = &'a Session>, source_bytes_per_s: Option<u64>) -> Option<String> {
    let stores = sessions.filter_map(|session| session.emulated().map(|emulation| emulation.to_string()));
    let source = source_bytes_per_s.map(|rate| format!("source {}", numbers::byte_rate(rate as f64)));
    let all: Vec<String> = stores.take(1).chain(source).collect();
    (!all.is_empty()).then(|| all.join(", "))
}
