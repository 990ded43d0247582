//! Exports samples with stacks as Perfetto's `PerfSample`s; callstacks, functions and modules are interned once.

use super::perfetto_messages::{Callstack, InternedData, InternedFrame, InternedMapping, InternedName, Packet, PerfSample};
use super::stacks::Stacks;
use crate::{HostId, Source, Time, TraceError, TrackId};
use std::collections::HashMap;

/// Maximum callstacks interned in one packet.
const STACKS_PER_PACKET: usize = 1_024;
const KERNEL_MODE: i32 = 1;
const USER_MODE: i32 = 2;

/// Destination of packets.
pub(super) trait Packets {
    /// Writes names that later packets refer to by id.
    fn intern(&mut self, names: InternedData) -> Result<(), TraceError>;
    /// Writes the packet of an instant.
    fn sample(&mut self, at: Time, packet: Packet) -> Result<(), TraceError>;
}

/// Writes all samples. `pid` maps a process (or thread) of a machine to its number in the trace.
pub(super) fn samples(source: &dyn Source, writer: &mut impl Packets, pid: impl Fn(HostId, u32) -> i32) -> Result<(), TraceError> {
    let stacks = Stacks::functions(source)?;
    let numbers = stacks.numbers();
    if numbers.is_empty() {
        return Ok(());
    }
    intern_functions(&stacks, writer)?;
    for chunk in numbers.chunks(STACKS_PER_PACKET) {
        let callstack = |number: &u32| Callstack {
            iid: Some(u64::from(*number) + 1),
            // Outermost first.
            frame_ids: stacks.frames(*number).iter().rev().map(|function| u64::from(*function) + 1).collect(),
        };
        let callstacks = chunk.iter().map(callstack).collect();
        writer.intern(InternedData { callstacks, ..InternedData::default() })?;
    }
    let threads: HashMap<TrackId, (u32, u32)> = source.tracks().iter().filter_map(|t| Some((t.track, (t.pid?, t.tid?)))).collect();
    for sample in source.samples()? {
        let Some(stack) = sample.profiled().filter(|stack| numbers.binary_search(stack).is_ok()) else { continue };
        let ids = sample.track.and_then(|track| threads.get(&track).copied()).unwrap_or((0, 0));
        let id = |number: u32| u32::try_from(pid(sample.host, number)).ok();
        let innermost = stacks.frames(stack).first().and_then(|number| stacks.functions.get(*number as usize));
        let perf_sample = Some(PerfSample {
            cpu: Some(sample.cpu),
            pid: id(ids.0),
            tid: id(ids.1),
            callstack_iid: Some(u64::from(stack) + 1),
            cpu_mode: innermost.map(|function| if function.is_kernel { KERNEL_MODE } else { USER_MODE }),
        });
        writer.sample(sample.at, Packet { perf_sample, ..Packet::default() })?;
    }
    Ok(())
}

/// Interns functions and their modules under the numbers that [`Stacks`] gives them, from 1.
fn intern_functions(stacks: &Stacks, writer: &mut impl Packets) -> Result<(), TraceError> {
    let mut modules: Vec<(&str, Option<&str>)> = stacks.functions.iter().map(|f| (f.module.as_str(), f.build_id.as_deref())).collect();
    modules.sort_unstable();
    modules.dedup();
    let named = |(number, name): (usize, &str)| InternedName { iid: Some(number as u64 + 1), name: Some(name.to_owned()) };
    let mapping = |(number, (_, build_id)): (usize, &(&str, Option<&str>))| InternedMapping {
        iid: Some(number as u64 + 1),
        build_id: build_id.map(|_| number as u64 + 1),
        path_string_ids: vec![number as u64 + 1],
    };
    let module_of = |module: &str, build_id: Option<&str>| modules.binary_search(&(module, build_id)).ok().map(|number| number as u64 + 1);
    let frame = |(number, function): (usize, &super::stacks::Function)| InternedFrame {
        iid: Some(number as u64 + 1),
        function_name_id: Some(number as u64 + 1),
        mapping_id: module_of(&function.module, function.build_id.as_deref()),
    };
    writer.intern(InternedData {
        function_names: stacks.functions.iter().map(|function| function.name.as_str()).enumerate().map(named).collect(),
        mapping_paths: modules.iter().map(|(module, _)| *module).enumerate().map(named).collect(),
        build_ids: modules.iter().enumerate().filter_map(|(number, (_, id))| id.map(|id| named((number, id)))).collect(),
        mappings: modules.iter().enumerate().map(mapping).collect(),
        frames: stacks.functions.iter().enumerate().map(frame).collect(),
        ..InternedData::default()
    })
}
