//! Files: one object for each, named by its path, recorded when something refers to it.

use super::facts::Facts;
use super::output::Output;
use crate::bpf::raw::{ACCESS_DIRECT, ACCESS_WITHIN, FdObject, FileHead, MODE_BLOCK, MODE_CHARACTER, MODE_FILE, MODE_KIND, path_of_parts};
use std::collections::HashMap;
use thalweg_trace::{ObjectId, ObjectKind};

/// Maximum files remembered; beyond it the older half is forgotten, and would be recorded anew.
const MOST_FILES: usize = 200_000;
/// Bound: files whose final size is queried, with one call each.
const MOST_SIZES: usize = 4_096;

#[derive(Clone, Debug)]
struct File {
    object: Option<ObjectId>,
    path: Option<String>,
    mode: u32,
    access: u32,
    /// The largest size seen.
    size_bytes: Option<u64>,
    /// Whether every descriptor met so far uses O_DIRECT; `None` if none was met.
    direct: Option<bool>,
    /// The access mode and O_DIRECT flag with which the object was recorded.
    emitted: Option<(u32, bool)>,
}

/// An open file of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenFile {
    /// Its descriptor.
    pub object: FdObject,
    /// Its path.
    pub path: String,
}

/// The files met, by device and inode.
#[derive(Debug, Default)]
pub(crate) struct Files {
    known: HashMap<(u32, u64), File>,
    /// New disks of these files, not yet passed to the programs.
    pub new_disks: Vec<u32>,
}

/// Whether what a descriptor refers to is recorded as a file.
pub(crate) fn is_file(object: &FdObject) -> bool {
    matches!(object.mode & MODE_KIND, MODE_FILE | MODE_BLOCK | MODE_CHARACTER | crate::bpf::raw::MODE_DIRECTORY)
}

impl Files {
    fn entry(&mut self, device: u32, inode: u64, mode: u32) -> &mut File {
        if self.known.len() >= MOST_FILES && !self.known.contains_key(&(device, inode)) {
            let mut kept = 0;
            self.known.retain(|_, _| {
                kept += 1;
                kept % 2 == 0
            });
        }
        self.known.entry((device, inode)).or_insert(File {
            object: None,
            path: None,
            mode,
            access: 0,
            size_bytes: None,
            direct: None,
            emitted: None,
        })
    }

    /// Handles the kernel's report of a file's path.
    pub(crate) fn path(&mut self, file: &FileHead, parts: &[u8], facts: &mut dyn Facts, output: &mut Output) {
        let mut path = path_of_parts(parts);
        if file.access & ACCESS_WITHIN != 0 {
            // Only if nothing better is known: the file may have other names elsewhere.
            if self.known.get(&(file.device, file.inode)).is_some_and(|f| f.path.is_some()) {
                return;
            }
            path.insert_str(0, facts.file_system(file.device).mounted_on.trim_end_matches('/'));
        }
        if file.mode & MODE_KIND == MODE_FILE {
            let known = self.entry(file.device, file.inode, file.mode);
            // (Under another path it is another file, see `named`.)
            let before = known.size_bytes.filter(|_| known.path.as_ref() == Some(&path));
            known.size_bytes = Some(before.unwrap_or(0).max(file.size_bytes));
        }
        self.named(file.device, file.inode, file.mode, file.access, path, facts, output);
    }

    /// Records the final sizes of written files, and of files whose size was not seen when they were met. File
    /// systems served by another program or machine are not queried: the answer might not come.
    pub(crate) fn end(&mut self, facts: &mut dyn Facts, output: &mut Output) {
        let unknown = |file: &File| file.access & 2 != 0 || file.size_bytes.is_none();
        let asked = self.known.iter().filter(|(_, file)| file.object.is_some() && file.mode & MODE_KIND == MODE_FILE && unknown(file));
        let mut asked: Vec<(u32, u64)> = asked.map(|(&key, _)| key).collect();
        asked.sort_unstable();
        for (device, inode) in asked.into_iter().take(MOST_SIZES) {
            let Some(path) = self.path_at(device, inode) else { continue };
            let Some(size) = facts.file_size(device, inode, path) else { continue };
            let file = self.entry(device, inode, MODE_FILE);
            if file.size_bytes.is_none_or(|known| known < size) {
                file.size_bytes = Some(size);
                file.emitted = None;
                self.object(device, inode, facts, output);
            }
        }
    }

    /// Notes a file's path, and its access mode (bit 0 read, 1 write).
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn named(
        &mut self,
        device: u32,
        inode: u64,
        mode: u32,
        access: u32,
        path: String,
        facts: &mut dyn Facts,
        output: &mut Output,
    ) {
        let file = self.entry(device, inode, mode);
        file.mode = mode;
        file.access |= access & 3;
        // An inode number may be reused: the latest name is valid for what follows, but an object is one file, so a
        // new path is a new object.
        if file.path.as_ref().is_some_and(|old| *old != path) {
            file.object = None;
            file.emitted = None;
        }
        file.path = Some(path);
        if file.object.is_some() {
            self.object(device, inode, facts, output);
        }
    }

    /// Returns the object of a file.
    pub(crate) fn object(&mut self, device: u32, inode: u64, facts: &mut dyn Facts, output: &mut Output) -> ObjectId {
        let file = self.entry(device, inode, MODE_FILE);
        let fresh = file.object.is_none();
        let object = *file.object.get_or_insert_with(|| output.object_id());
        let is_direct = file.direct == Some(true);
        if fresh || file.emitted != Some((file.access, is_direct)) {
            file.emitted = Some((file.access, is_direct));
            let opened = ["", "read", "write", "both"][file.access as usize & 3];
            let name = file.path.clone().unwrap_or_else(|| format!("inode {inode}"));
            let regular = file.mode & MODE_KIND == MODE_FILE;
            let size = file.size_bytes.filter(|_| regular).map(|bytes| bytes.to_string()).unwrap_or_default();
            let system = facts.file_system(device);
            if system.disk_number != 0 && !self.new_disks.contains(&system.disk_number) {
                self.new_disks.push(system.disk_number);
            }
            let disk = if regular { system.disk.as_str() } else { "" };
            let direct = if is_direct { "yes" } else { "" };
            let attributes =
                [("device", disk), ("filesystem", &system.kind), ("opened", opened), ("file_bytes", &size), ("direct", direct)];
            output.object(object, ObjectKind::File, &name, &attributes);
        }
        object
    }

    /// Returns the path of a file, if known.
    pub(crate) fn path_of(&self, fd: &FdObject) -> Option<&str> {
        self.known.get(&(fd.device, fd.id))?.path.as_deref()
    }

    /// Returns a file's path by the device of its file system and its inode.
    pub(crate) fn path_at(&self, device: u32, inode: u64) -> Option<&str> {
        self.known.get(&(device, inode))?.path.as_deref()
    }

    /// Returns the object of a descriptor's file, if it is a file.
    pub(crate) fn of(&mut self, fd: &FdObject, facts: &mut dyn Facts, output: &mut Output) -> Option<ObjectId> {
        if !is_file(fd) {
            return None;
        }
        let file = self.entry(fd.device, fd.id, fd.mode);
        file.access |= fd.access & 3;
        file.direct = Some(file.direct != Some(false) && fd.access & ACCESS_DIRECT != 0);
        Some(self.object(fd.device, fd.id, facts, output))
    }
}
