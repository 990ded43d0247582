//! Create, link, rename, remove.

use crate::errors::{HandlerResult, Refusal};
use crate::filesystem::{Answer, DirectoryAfter, FileSystem, Worker};
use crate::fuse::reply;
use crate::fuse::request::Header;
use crate::inodes::absence::AbsentNames;
use crate::inodes::inode::Inode;
use crate::inodes::revalidation::OpenTarget;
use std::sync::Arc;
use thalweg_client::metadata::MetadataClient;
use thalweg_client::wire::protocol::metadata::{Attributes, Existing, FileKind, FilePath, LayoutChoice, Owner, SetAttributes};
use thalweg_client::wire::{Error, ErrorKind};
use thalweg_trace::Tracer;

impl FileSystem {
    /// Returns the owner of a new entry: a set-group directory passes on its group, and to directories the bit as well.
    fn owner_in(&self, directory: &Inode, header: &Header, mode: u32, of: FileKind) -> Owner {
        let state = directory.state();
        let inherits = state.mode & libc::S_ISGID != 0;
        let bit = if inherits && of == FileKind::Directory { libc::S_ISGID } else { 0 };
        Owner { mode: mode & 0o7777 | bit, uid: header.uid, gid: if inherits { state.gid } else { header.gid } }
    }

    /// Returns the layout for a new file: the mount's option, unless the directory has its own. The mount's lot is always set, so that a
    /// mount with a lot needs no further call.
    fn layout_in(&self, w: &mut Worker, directory: u64) -> HandlerResult<LayoutChoice> {
        let only_lot = |choice: &LayoutChoice| LayoutChoice { lot: choice.lot, ..LayoutChoice::default() };
        let of_mount = &self.options.layout;
        if *of_mount == only_lot(of_mount) {
            return Ok(of_mount.clone());
        }
        let attributes = self.names.stat(&mut w.tracer, &self.place_of(directory))?;
        let says_more = attributes.default_layout.is_some_and(|choice| choice != only_lot(&choice));
        Ok(if says_more { only_lot(of_mount) } else { of_mount.clone() })
    }

    /// Changes one name in a directory; the reply includes the directory's attributes. `made`: the change creates the name.
    fn change_name<T>(
        &self,
        w: &mut Worker,
        place: &FilePath,
        made: bool,
        change: impl FnOnce(&MetadataClient, &mut Tracer) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.options.strict {
            return change(&self.names, &mut w.tracer);
        }
        let names = self.names.beside(place.from);
        let done = change(&names, &mut w.tracer)?;
        let name = made.then(|| place.path.clone());
        w.directory = Some(DirectoryAfter { directory: place.from, attributes: names.take_directory(), name });
        Ok(done)
    }

    /// Makes a directory.
    pub(crate) fn make_directory(&self, w: &mut Worker, header: &Header, name: &[u8], mode: u32) -> HandlerResult<Answer> {
        let parent = self.inode(header.node)?;
        let owner = self.owner_in(&parent, header, mode, FileKind::Directory);
        let place = self.place(header.node, name)?;
        let attributes = self.change_name(w, &place, true, |names, tracer| names.make_directory(tracer, &place, owner, false))?;
        let answer = self.answer_new(w, &place, &attributes)?;
        if !self.options.strict {
            let made = self.inode(self.table.number(attributes.id))?;
            made.state().absent_names = Some(Box::new(AbsentNames::of_new(&attributes, w.began, self.options.lifetime())));
        }
        Ok(answer)
    }

    /// Makes a file, a named pipe, a socket or a device.
    pub(crate) fn make_node(&self, w: &mut Worker, header: &Header, name: &[u8], mode: u32, device: u32) -> HandlerResult<Answer> {
        let kind = match mode & libc::S_IFMT {
            libc::S_IFREG | 0 => FileKind::File,
            libc::S_IFIFO => FileKind::Fifo,
            libc::S_IFSOCK => FileKind::Socket,
            libc::S_IFCHR => FileKind::CharacterDevice,
            libc::S_IFBLK => FileKind::BlockDevice,
            _ => return Err(Refusal::plain(libc::EINVAL)),
        };
        let parent = self.inode(header.node)?;
        let place = self.place(header.node, name)?;
        let owner = self.owner_in(&parent, header, mode, kind);
        let attributes = if kind == FileKind::File {
            let layout = self.layout_in(w, header.node)?;
            self.change_name(w, &place, true, |names, tracer| names.make_file(tracer, &place, owner, Existing::Refuse, &layout))?
        } else {
            self.change_name(w, &place, true, |names, tracer| names.make_special(tracer, &place, kind, device, owner))?
        };
        self.answer_new(w, &place, &attributes)
    }

    /// Makes a symbolic link.
    pub(crate) fn make_symlink(&self, w: &mut Worker, header: &Header, name: &[u8], target: &[u8]) -> HandlerResult<Answer> {
        let parent = self.inode(header.node)?;
        let owner = self.owner_in(&parent, header, 0o777, FileKind::Symlink);
        let place = self.place(header.node, name)?;
        let attributes = self.change_name(w, &place, true, |names, tracer| names.make_symlink(tracer, &place, target, owner))?;
        self.answer_new(w, &place, &attributes)
    }

    /// Returns a symbolic link's target.
    pub(crate) fn read_link(&self, w: &mut Worker, inode: u64) -> HandlerResult<Answer> {
        // The target never changes, and mostly came with the attributes.
        if let Some(target) = &self.inode(inode)?.state().target {
            w.out.extend_from_slice(target);
            return Ok(Answer::Out);
        }
        let target = self.names.read_symlink(&mut w.tracer, &self.place_of(inode)).map_err(|e| Refusal::from(e).of_known_file())?;
        w.out.extend(target);
        Ok(Answer::Out)
    }

    /// Creates a file, or finds it, and opens it.
    pub(crate) fn create(&self, w: &mut Worker, header: &Header, name: &[u8], flags: u32, mode: u32) -> HandlerResult<Answer> {
        self.retries.abandon(w.thread);
        let parent = self.inode(header.node)?;
        let place = self.place(header.node, name)?;
        let owner = self.owner_in(&parent, header, mode, FileKind::File);
        let layout = self.layout_in(w, header.node)?;
        loop {
            match self.change_name(w, &place, true, |names, tracer| names.create(tracer, &place, owner, Existing::Refuse, &layout)) {
                Ok(opened) => {
                    let attributes = opened.attributes.clone();
                    self.answer_new(w, &place, &attributes)?;
                    let inode = self.inode(self.table.number(attributes.id))?;
                    let (handle, open_flags) = self.opened_new(w, &inode, opened, flags)?;
                    reply::opened(&mut w.out, handle, open_flags);
                    return Ok(Answer::Out);
                }
                Err(error) if error.kind() == ErrorKind::Exists && flags & libc::O_EXCL as u32 == 0 => {}
                Err(error) => return Err(error.into()),
            }
            // Another client was first, so its file is opened. The kernel would take over this answer for a new file even if it learned
            // more about the file meanwhile: make it look the name up and open the result.
            if self.retries.first_of_create(w.thread) {
                return Err(Refusal::plain(libc::ESTALE));
            }
            // The file was removed again. If it is still missing, it can be created.
            let attributes = match self.names.stat(&mut w.tracer, &place) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                attributes => attributes?,
            };
            return self.create_found(w, &place, &attributes, flags);
        }
    }

    fn create_found(&self, w: &mut Worker, place: &FilePath, attributes: &Attributes, flags: u32) -> HandlerResult<Answer> {
        match attributes.kind {
            FileKind::File => {}
            FileKind::Directory => return Err(Refusal::plain(libc::EISDIR)),
            // The kernel looks again, and follows the link.
            _ => return Err(Refusal::plain(libc::ESTALE)),
        }
        let number = self.table.number(attributes.id);
        let empty = flags & libc::O_TRUNC as u32;
        if empty != 0 {
            // The kernel gets the file's current attributes.
            match self.table.get(number).and_then(|inode| Some((inode.shared()?, inode))) {
                Some((shared, inode)) => {
                    self.write_back(&mut w.tracer, &inode, &shared);
                    self.truncate(&mut w.tracer, &inode, Some(&shared), 0)?;
                }
                None => self.names.truncate(&mut w.tracer, &FilePath::of(attributes.id), 0)?,
            }
            let attributes = self.names.stat(&mut w.tracer, &FilePath::of(attributes.id)).map_err(|e| Refusal::from(e).of_known_file())?;
            self.answer_entry_once(w, place, &attributes)?;
        } else {
            self.answer_entry_once(w, place, attributes)?;
        }
        let opened = self.inode(number).and_then(|inode| self.opened(w, &inode, flags & !empty, Some(OpenTarget::Name(place.clone()))));
        match opened {
            Ok((handle, open_flags)) => {
                reply::opened(&mut w.out, handle, open_flags);
                Ok(Answer::Out)
            }
            Err(refusal) => {
                // The kernel does not get the file after all.
                self.table.forget(number, 1);
                w.out.clear();
                Err(refusal)
            }
        }
    }

    /// Removes a file's name.
    pub(crate) fn unlink(&self, w: &mut Worker, directory: u64, name: &[u8]) -> HandlerResult<Answer> {
        let place = self.place(directory, name)?;
        self.change_name(w, &place, false, |names, tracer| names.unlink(tracer, &place))?;
        Ok(Answer::Done)
    }

    /// Removes an empty directory.
    pub(crate) fn remove_directory(&self, w: &mut Worker, directory: u64, name: &[u8]) -> HandlerResult<Answer> {
        let place = self.place(directory, name)?;
        self.change_name(w, &place, false, |names, tracer| names.remove_directory(tracer, &place))?;
        Ok(Answer::Done)
    }

    /// Renames a file or directory, or exchanges two names.
    pub(crate) fn rename(&self, w: &mut Worker, from: (u64, &[u8]), to: (u64, &[u8]), flags: u32) -> HandlerResult<Answer> {
        let (from, to) = (self.place(from.0, from.1)?, self.place(to.0, to.1)?);
        match flags {
            libc::RENAME_EXCHANGE => self.names.exchange(&mut w.tracer, &from, &to)?,
            0 | libc::RENAME_NOREPLACE => {
                let moved = self.names.rename(&mut w.tracer, &from, &to, flags == 0, &SetAttributes::default())?;
                if let Some(inode) = self.table.get(self.table.number(moved.id)) {
                    let mut state = inode.state();
                    state.dentries.remove(from.from, &from.path);
                    state.dentries.add(to.from, &to.path, self.options.lifetime());
                }
            }
            _ => return Err(Refusal::plain(libc::EINVAL)),
        }
        Ok(Answer::Done)
    }

    /// Adds a name to a file.
    pub(crate) fn link(&self, w: &mut Worker, file: u64, directory: u64, name: &[u8]) -> HandlerResult<Answer> {
        let known: Arc<Inode> = self.inode(file)?;
        let place = self.place(directory, name)?;
        let attributes = self.names.link(&mut w.tracer, &FilePath::of(known.id), &place)?;
        known.changed_here(&attributes);
        self.answer_entry_once(w, &place, &attributes)
    }
}
