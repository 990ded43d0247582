//! Space in the store (`df`).

use crate::errors::Answered;
use crate::filesystem::{Answer, FileSystem, Worker};
use crate::fuse::reply;

impl FileSystem {
    /// Space on all targets that answer.
    pub(crate) fn statfs(&self, w: &mut Worker) -> Answered<Answer> {
        const BLOCK_BYTES: u64 = 4096;
        let (targets, silent) = self.data.space(&mut w.tracer);
        if targets.is_empty()
            && let Some(error) = silent.into_iter().next()
        {
            return Err(error.into());
        }
        // Targets on one file system share its space.
        let mut seen: Vec<(u64, &str)> = Vec::new();
        let (mut total, mut free, mut files) = (0_u64, 0_u64, 0_u64);
        let map = self.names.map();
        for space in &targets {
            let node = map.target(space.target).map_or("", |(_, server)| server.node.as_str());
            if seen.contains(&(space.file_system, node)) {
                continue;
            }
            seen.push((space.file_system, node));
            total = total.saturating_add(space.total_bytes);
            free = free.saturating_add(space.available_bytes);
            files = files.saturating_add(space.available_files);
        }
        let blocks = |bytes: u64| bytes / BLOCK_BYTES;
        let space = reply::Space {
            block_bytes: BLOCK_BYTES as u32,
            blocks: blocks(total),
            free: blocks(free),
            available: blocks(free),
            files,
            files_free: files,
            name_bytes: thalweg_store::limits::NAME_BYTES as u32,
        };
        reply::space(&mut w.out, &space);
        Ok(Answer::Out)
    }
}
