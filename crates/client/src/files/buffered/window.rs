//! Shared by read-ahead and write-behind: splitting ranges among servers, ordering them, and the size of their memory.

use crate::files::data::DataClient;
use crate::files::engine::Engine;
use crate::files::engine::flow::{Flow, QueuedTask, Task};
use crate::files::handle::FileHandle;
use std::ops::Range;
use std::sync::Arc;
use thalweg_layout::FlowBuffer;
use thalweg_trace::TrackId;
use thalweg_wire::Result;
use thalweg_wire::limits;

/// A flow buffer with the index of its server.
pub(in crate::files) type Sent = (usize, FlowBuffer);

/// Splits logical ranges into flow buffers, interleaved: every server gets its first before any gets its second.
pub(in crate::files) fn spread(data: &DataClient, file: &FileHandle, ranges: &[Range<u64>]) -> Result<Vec<Sent>> {
    let mut by_datafile: Vec<(usize, Vec<FlowBuffer>)> = Vec::new();
    for id in file.datafiles() {
        let buffers = |range: &Range<u64>| {
            file.layout().flow_buffers(id.index, range.start, range.end - range.start, limits::CONNECTION_MEMORY_BYTES)
        };
        let buffers: Vec<FlowBuffer> = ranges.iter().flat_map(buffers).collect();
        if !buffers.is_empty() {
            by_datafile.push((data.server_of(id.target)?, buffers));
        }
    }
    let most = by_datafile.iter().map(|(_, buffers)| buffers.len()).max().unwrap_or(0);
    let nth = |n: usize| by_datafile.iter().filter_map(move |(server, buffers)| Some((*server, *buffers.get(n)?)));
    Ok((0..most).flat_map(nth).collect())
}

/// Queues a flow's tasks with an engine.
pub(in crate::files) fn ask(engine: &Engine, flow: &Arc<Flow>, tasks: Vec<Sent>, asked_by: Option<TrackId>) {
    for (server, buffer) in tasks {
        engine.ask(server, QueuedTask { flow: Arc::clone(flow), task: Task::Move(buffer), again: false, asked_by });
    }
}

/// Returns the bytes of a file moved together: enough for a full flow buffer at each of a few servers.
pub(in crate::files) fn chunk_bytes(data: &DataClient, file: &FileHandle) -> u64 {
    let servers = file.targets().len().min(data.links().len()).clamp(1, 8) as u64;
    (servers * limits::CONNECTION_MEMORY_BYTES).next_power_of_two()
}
