//! Free space (`df`): of the lot, if in one, otherwise of the store.
//!
//! Some programs ask before each file they write. An answer is cached for the lifetime of attributes (a second unless the mount is
//! strict), so the servers are asked at most once a second.

use super::lots::lot_of;
use crate::errors::{HandlerResult, Refusal};
use crate::filesystem::{Answer, FileSystem, Worker};
use crate::fuse::reply;
use thalweg_client::wire::protocol::lots::{LotReport, LotState};
use thalweg_client::wire::protocol::metadata::{FileKind, FilePath};

const BLOCK_BYTES: u64 = 4096;

impl FileSystem {
    /// Returns the space of the lot that a file, or new files of a directory, are in; otherwise of all targets that answer.
    pub(crate) fn statfs(&self, w: &mut Worker, inode: u64) -> HandlerResult<Answer> {
        let lifetime = self.options.lifetime();
        let inode = self.inode(inode)?;
        let known = self.spaces.lots.get(inode.id, lifetime, || {
            let asked = self.names.stat(&mut w.tracer, &FilePath::of(inode.id)).map_err(|e| Refusal::from(e).of_known_file())?;
            Ok(lot_of(&asked))
        })?;
        // New files of the mount go to its own lot, whatever their directory's default.
        let lot = self.options.layout.lot.filter(|_| inode.kind != FileKind::File).or(known);
        let space = self.spaces.spaces.get(lot, lifetime, || {
            let report = match lot {
                Some(lot) => self.lot_report(w, lot)?,
                None => None,
            };
            match report.as_ref().and_then(lot_space) {
                Some((size_bytes, free_bytes)) => Ok(space(size_bytes, free_bytes, self.store_space(w)?.files)),
                None => self.store_space(w),
            }
        })?;
        reply::space(&mut w.out, &space);
        Ok(Answer::Out)
    }

    fn store_space(&self, w: &mut Worker) -> HandlerResult<reply::Space> {
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
            // Space reserved by lots is not free for others.
            free = free.saturating_add(space.available_bytes.saturating_sub(space.promised_bytes));
            files = files.saturating_add(space.available_files);
        }
        Ok(space(total, free, files))
    }
}

/// Returns a lot's size and free space. `None`: unknown, or the reservation has ended and its files use the store's space.
fn lot_space(report: &LotReport) -> Option<(u64, u64)> {
    let lot = &report.lot;
    if lot.state != LotState::Active || report.uses.len() < lot.shares.len() {
        return None;
    }
    let used = report.uses.iter().fold(0_u64, |sum, used| sum.saturating_add(used.used_bytes));
    Some((lot.size_bytes.max(used), lot.size_bytes.saturating_sub(used)))
}

fn space(total_bytes: u64, free_bytes: u64, files: u64) -> reply::Space {
    reply::Space {
        block_bytes: BLOCK_BYTES as u32,
        blocks: total_bytes / BLOCK_BYTES,
        free: free_bytes / BLOCK_BYTES,
        available: free_bytes / BLOCK_BYTES,
        files,
        files_free: files,
        name_bytes: thalweg_client::wire::limits::NAME_BYTES as u32,
    }
}
