//! Extended attributes: user attributes, which go to the metadata service unchanged, and synthetic ones for setting layouts and locating
//! bytes. `docs/MOUNT.md` lists them.

use super::lots::lot_of;
use crate::errors::{HandlerResult, Refusal};
use crate::filesystem::{Answer, FileSystem, Worker};
use crate::fuse::{abi, reply};
use crate::inodes::inode::Inode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg_client::FileHandle;
use thalweg_client::wire::ErrorKind;
use thalweg_client::wire::protocol::metadata::{
    Attributes, FileKind, FilePath, LayoutChoice, ServerEntry, SetAttributes, SetExtended, TargetEntry,
};
use thalweg_trace::{MountDescription, MountedServer, MountedTarget};

/// Prefix of the synthetic attributes.
const OURS: &[u8] = b"user.thalweg.";
const LAYOUT: &[u8] = b"user.thalweg.layout";
const LOT: &[u8] = b"user.thalweg.lot";
const MAP: &[u8] = b"user.thalweg.map";
const STORE: &[u8] = MountDescription::ATTRIBUTE.as_bytes();
const ERROR: &[u8] = b"user.thalweg.error";
const COUNTERS: &[u8] = b"user.thalweg.counters";
/// How long a layout change waits for a file to be closed: close(2) returns before the kernel reports it here.
const CLOSING: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Supported namespaces; the kernel checks access. Access control lists (`system.`) are not supported: only modes.
const SPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
/// Labels are not supported either. With SELinux enabled, the kernel gives all files of a mount one label and does not ask; otherwise `ls
/// -l` asks for each file's, unless the answer is that labels are unsupported.
const LABEL: &[u8] = b"security.selinux";

impl FileSystem {
    /// Returns an attribute's value.
    pub(crate) fn get_extended(&self, w: &mut Worker, inode: u64, name: &[u8], room: u32) -> HandlerResult<Answer> {
        check_space(name)?;
        let inode = self.inode(inode)?;
        let value = if name.starts_with(OURS) {
            self.synthetic(w, &inode, name)?
        } else if self.has_no_xattrs(&inode) {
            None
        } else {
            self.names.get_extended(&mut w.tracer, &FilePath::of(inode.id), name).map_err(|e| Refusal::from(e).of_known_file())?
        };
        let value = value.ok_or(Refusal::plain(libc::ENODATA))?;
        answer_bytes(w, &value, room)
    }

    /// Whether a file is known to have no attributes: reported with its recent attributes, and none was set here since.
    fn has_no_xattrs(&self, inode: &Inode) -> bool {
        let asked = inode.state().no_xattrs_at.filter(|asked| asked.elapsed() < self.options.lifetime());
        asked.is_some_and(|asked| self.local_changes.is_current_file(asked, (inode.id, 1)))
    }

    /// Returns the names of all attributes except the synthetic ones.
    pub(crate) fn list_extended(&self, w: &mut Worker, inode: u64, room: u32) -> HandlerResult<Answer> {
        let inode = self.inode(inode)?;
        if self.has_no_xattrs(&inode) {
            return answer_bytes(w, &[], room);
        }
        let names = self.names.list_extended(&mut w.tracer, &FilePath::of(inode.id)).map_err(|e| Refusal::from(e).of_known_file())?;
        let mut all = Vec::new();
        for name in names {
            all.extend(name);
            all.push(0);
        }
        answer_bytes(w, &all, room)
    }

    /// Sets an attribute.
    pub(crate) fn set_extended(&self, w: &mut Worker, inode: u64, name: &[u8], value: &[u8], flags: u32) -> HandlerResult<Answer> {
        check_space(name)?;
        let inode = self.inode(inode)?;
        if name.starts_with(OURS) {
            return match name {
                LAYOUT => self.set_layout(w, &inode, value),
                LOT => self.set_lot(w, &inode, value),
                _ => Err(Refusal::plain(libc::EPERM)),
            };
        }
        let how = match flags as i32 {
            0 => SetExtended::Either,
            libc::XATTR_CREATE => SetExtended::Create,
            libc::XATTR_REPLACE => SetExtended::Replace,
            _ => return Err(Refusal::plain(libc::EINVAL)),
        };
        let done = self.names.set_extended(&mut w.tracer, &FilePath::of(inode.id), name, value, how);
        done.map_err(|e| Refusal::from(e).of_known_file())?;
        Ok(Answer::Done)
    }

    /// Removes an attribute.
    pub(crate) fn remove_extended(&self, w: &mut Worker, inode: u64, name: &[u8]) -> HandlerResult<Answer> {
        check_space(name)?;
        let inode = self.inode(inode)?;
        let place = FilePath::of(inode.id);
        if name.starts_with(OURS) {
            if ![LAYOUT, LOT].contains(&name) || inode.kind != FileKind::Directory {
                return Err(Refusal::plain(libc::EPERM));
            }
            // A directory's default has several parts, removed individually.
            let choice = self.names.stat(&mut w.tracer, &place)?.default_layout.unwrap_or_default();
            let is_unset = match name {
                LOT => choice.lot.is_none(),
                _ => choice == LayoutChoice { lot: choice.lot, ..LayoutChoice::default() },
            };
            if is_unset {
                return Err(Refusal::plain(libc::ENODATA));
            }
            return self.change_default(w, &inode, |choice| match name {
                LOT => choice.lot = None,
                _ => *choice = LayoutChoice { lot: choice.lot, ..LayoutChoice::default() },
            });
        }
        self.names.remove_extended(&mut w.tracer, &place, name).map_err(|e| Refusal::from(e).of_known_file())?;
        Ok(Answer::Done)
    }

    fn synthetic(&self, w: &mut Worker, inode: &Arc<Inode>, name: &[u8]) -> HandlerResult<Option<Vec<u8>>> {
        match name {
            STORE => return Ok(Some(self.store_document().into_bytes())),
            COUNTERS => return Ok(Some(self.counters_document().into_bytes())),
            ERROR => return Ok(inode.state().layout_error.as_deref().map(|text| text.as_bytes().to_vec())),
            LAYOUT | MAP | LOT => {}
            _ => return Ok(None),
        }
        let attributes = self.names.stat(&mut w.tracer, &FilePath::of(inode.id)).map_err(|e| Refusal::from(e).of_known_file())?;
        if name == LOT {
            return lot_of(&attributes).map(|lot| self.lot_name(w, lot).map(String::into_bytes)).transpose();
        }
        match &attributes.layout {
            Some(layout) if name == LAYOUT => Ok(Some(LayoutChoice::from(&**layout).to_string().into_bytes())),
            Some(_) => self.map_of(w, inode, &attributes).map(Some),
            None if name == LAYOUT => {
                let text = attributes.default_layout.as_ref().map(ToString::to_string);
                Ok(text.filter(|text| !text.is_empty()).map(String::into_bytes))
            }
            None => Ok(None),
        }
    }

    /// Returns one line per datafile: target, server, node and bytes.
    fn map_of(&self, w: &mut Worker, inode: &Inode, attributes: &Attributes) -> HandlerResult<Vec<u8>> {
        if let Some(shared) = inode.shared() {
            self.write_back(&mut w.tracer, inode, &shared);
        }
        let handle = FileHandle::from_attributes(attributes.id.to_string(), attributes)?;
        let sizes = self.data.glimpse(&mut w.tracer, &handle)?;
        let map = self.names.map();
        let mut text = String::new();
        for (index, (target, size)) in handle.targets().iter().zip(sizes).enumerate() {
            let server = map.target(*target).map(|(_, server)| server);
            let (name, label) = server.map_or(("?", "?"), |s| (s.name.as_str(), s.node.as_str()));
            text.push_str(&format!("{index} {target} {name} {label} {}\n", size.size_bytes));
        }
        Ok(text.into_bytes())
    }

    fn store_document(&self) -> String {
        let map = self.names.map();
        let server = |s: &ServerEntry| MountedServer { name: s.name.clone(), node: s.node.clone(), address: s.address.clone() };
        let target = |t: &TargetEntry| MountedTarget {
            target: t.target.0,
            server: map.servers.get(t.server as usize).map(|s| s.name.clone()),
            directory: t.directory.clone(),
        };
        let description = MountDescription {
            store: format!("{:016x}", map.store),
            metadata: self.names.address().to_owned(),
            servers: map.servers.iter().map(server).collect(),
            targets: map.targets.iter().map(target).collect(),
            node: self.options.node.clone(),
            pid: std::process::id(),
            strict: self.options.strict,
        };
        serde_json::json!(description).to_string()
    }

    /// Returns the counters of kernel requests and of listings.
    fn counters_document(&self) -> String {
        let asked = abi::opcode::NAMES.iter().map(|(code, name)| ((*name).to_owned(), self.requests.count(*code).into()));
        let walks = [("names", &self.walkers.names), ("attributes", &self.walkers.whole), ("singly", &self.walkers.singly)].map(
            |(name, walker)| {
                let c = walker.counters();
                let counts = serde_json::json!({
                    "entries": c.entries, "hits": c.hits, "misses": c.misses, "wasted": c.wasted, "requests": c.requests,
                    "round_trips": c.round_trips, "glimpsed": c.glimpsed, "from_metadata": c.from_metadata, "window": c.window,
                });
                (name.to_owned(), counts)
            },
        );
        let document = serde_json::json!({
            "asked": asked.collect::<serde_json::Map<_, _>>(),
            "walks": serde_json::Map::from_iter(walks),
            "lookups_ahead": self.lookup_ahead.answered.load(std::sync::atomic::Ordering::Relaxed),
            "known": self.table.len(),
        });
        document.to_string()
    }

    /// Changes a file's layout; if it is or was open here, once the server knows that it is closed, or after [`CLOSING`].
    fn relayout_when_closed(&self, w: &mut Worker, inode: &Inode, choice: &LayoutChoice) -> thalweg_client::wire::Result<Attributes> {
        let begun = Instant::now();
        loop {
            // (After it is dropped here, its release may still be in flight.)
            let was_open = !inode.state().was_never_open();
            match self.names.relayout(&mut w.tracer, &FilePath::of(inode.id), choice) {
                Err(error) if error.kind() == ErrorKind::Busy && was_open && begun.elapsed() < CLOSING => std::thread::sleep(POLL_INTERVAL),
                done => return done,
            }
        }
    }

    /// Sets the layout for new entries of a directory, or of an empty file. A refusal's reason can be read afterwards.
    fn set_layout(&self, w: &mut Worker, inode: &Inode, value: &[u8]) -> HandlerResult<Answer> {
        let refuse = |reason: String, errno: i32| Err(self.refuse_layout(inode, &reason, errno));
        inode.state().layout_error = None;
        let text = match std::str::from_utf8(value) {
            Ok(text) => text.trim_end_matches(['\0', '\n']),
            Err(_) => return refuse("it is not UTF-8 text".to_owned(), libc::EINVAL),
        };
        let choice = match text.parse::<LayoutChoice>() {
            Ok(choice) => choice,
            Err(reason) => return refuse(reason, libc::EINVAL),
        };
        let place = FilePath::of(inode.id);
        let done = match inode.kind {
            FileKind::Directory => {
                let lot = self.names.stat(&mut w.tracer, &place)?.default_layout.and_then(|choice| choice.lot);
                let choice = LayoutChoice { lot, ..choice };
                let set = SetAttributes { default_layout: Some(Some(choice)), ..SetAttributes::default() };
                self.names.set_attributes(&mut w.tracer, &place, &set)
            }
            FileKind::File => self.relayout_when_closed(w, inode, &choice),
            _ => return refuse("only files and directories have layouts".to_owned(), libc::EPERM),
        };
        match done {
            Ok(attributes) => {
                inode.changed_here(&attributes);
                Ok(Answer::Done)
            }
            Err(error) if error.kind() == ErrorKind::Busy => refuse(error.message().to_owned(), libc::EBUSY),
            Err(error) if error.kind() == ErrorKind::Invalid => refuse(error.message().to_owned(), libc::EINVAL),
            Err(error) => Err(Refusal::from(error).of_known_file()),
        }
    }
}

fn check_space(name: &[u8]) -> HandlerResult<()> {
    match name != LABEL && SPACES.iter().any(|space| name.starts_with(space) && name.len() > space.len()) {
        true => Ok(()),
        false => Err(Refusal::plain(libc::EOPNOTSUPP)),
    }
}

/// Answers with bytes if they fit into `room`; with their number if `room` is 0.
fn answer_bytes(w: &mut Worker, bytes: &[u8], room: u32) -> HandlerResult<Answer> {
    if room == 0 {
        reply::count(&mut w.out, bytes.len() as u32);
    } else if bytes.len() > room as usize {
        return Err(Refusal::plain(libc::ERANGE));
    } else {
        w.out.extend(bytes);
    }
    Ok(Answer::Out)
}
