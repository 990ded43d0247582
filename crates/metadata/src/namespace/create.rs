//! Creating names: directories, files, links and other nodes.
//!
//! In a directory with the set-group-ID bit, new files and directories get the directory's group, and directories also the bit: the one
//! rule of ownership that the kernel leaves to file systems. The owners and modes that a credential may store are in [`super::privileges`].

use super::caller::Caller;
use super::draft_rows;
use super::makers;
use super::placement;
use super::tree::*;
use crate::database::{Table, Transaction, Watch};
use crate::inode::{Entry, Inode, Node, Settlement, Sizing, encode, entry_key};
use crate::lots::rules;
use crate::namespace::Removed;
use thalweg_wire::limits;
use thalweg_wire::protocol::metadata::{Attributes, End, Existing, FileId, FileKind, FilePath, LayoutChoice, NewNode, Owner};
use thalweg_wire::protocol::names::split;
use thalweg_wire::{Error, ErrorKind, Result};

/// The set-group-ID bit of a directory's mode.
const SET_GROUP: u32 = 0o2000;

impl Caller<'_> {
    /// Creates a directory. With `parents`, creates its missing parents too, and an existing directory is no error.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`], [`ErrorKind::NotFound`], [`ErrorKind::NotDirectory`].
    pub(crate) fn make_directory(&self, watch: &mut dyn Watch, place: &FilePath, owner: Owner, parents: bool) -> Result<Attributes> {
        self.change(watch, |t| self.make_directory_in(t, place, owner, parents))
    }

    pub(super) fn make_directory_in(&self, t: &mut dyn Transaction, place: &FilePath, owner: Owner, parents: bool) -> Result<Attributes> {
        let mut make = || {
            let owner = self.owner_of_new(owner, FileKind::Directory)?;
            let names = split(&place.path)?;
            let mut at = place.from;
            directory_of(t, at)?;
            if names.is_empty() && !parents {
                return Err(exists());
            }
            for (i, name) in names.iter().enumerate() {
                let last = i + 1 == names.len();
                match entry(t, at, name)? {
                    Some(_) if last && !parents => return Err(exists()),
                    Some(found) if found.kind == FileKind::Directory => at = found.id,
                    Some(_) if last => return Err(exists()),
                    Some(_) => return Err(not_directory(name)),
                    None if last || parents => at = self.add_directory(t, at, name, owner)?,
                    None => return Err(not_found(name)),
                }
            }
            Ok(inode(t, at)?.attributes(at))
        };
        on(place, make())
    }

    fn add_directory(&self, t: &mut dyn Transaction, parent: FileId, name: &[u8], owner: Owner) -> Result<FileId> {
        let now_ns = self.now_ns();
        let id = self.fresh()?;
        let mut above = directory_of(t, parent)?;
        let Node::Directory { default_layout, .. } = &above.node else { unreachable!("directory_of checks") };
        let mut default_layout = default_layout.clone();
        // A new directory does not inherit a lot that is being removed, nor one of another owner.
        if above.lot().is_some()
            && !rules::is_inherited(t, self.who, &above)?
            && let Some(choice) = &mut default_layout
        {
            choice.lot = None;
        }
        let owner = in_directory(&above, owner, true);
        let made = Inode::new(Node::Directory { parent, default_layout }, owner, now_ns);
        above.links += 1;
        above.modified(now_ns);
        put_inode(t, parent, &above);
        put_inode(t, id, &made);
        t.put(Table::Entries, &entry_key(parent, name), encode(&Entry { id, kind: FileKind::Directory }));
        makers::made(t, id, self.who);
        Ok(id)
    }

    /// Creates an empty file. A file whose name it takes is to be removed.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`], [`ErrorKind::IsDirectory`], [`ErrorKind::Invalid`] for an invalid layout, ...
    pub(crate) fn create(
        &self,
        watch: &mut dyn Watch,
        place: &FilePath,
        owner: Owner,
        existing: Existing,
        choice: &LayoutChoice,
        node: &str,
    ) -> Result<(Attributes, Removed)> {
        let made = (owner, existing, choice, node);
        self.change(watch, |t| self.create_in(t, place, made, None))
    }

    /// Creates an empty file and counts the caller as its writer ([`super::Namespace::closed`]).
    ///
    /// # Errors
    /// Those of [`Caller::create`].
    pub(crate) fn create_open(
        &self,
        watch: &mut dyn Watch,
        place: &FilePath,
        owner: Owner,
        existing: Existing,
        choice: &LayoutChoice,
        node: &str,
    ) -> Result<(Attributes, Removed)> {
        let (made, mut begun) = ((owner, existing, choice, node), Vec::new());
        let done = self.change(watch, |t| self.create_in(t, place, made, Some(&mut begun)));
        self.not_made(&begun, done.as_ref().map_or(&[][..], |(made, _)| std::slice::from_ref(&made.id)));
        done
    }

    /// Removes the writers of files that a transaction has begun to write but not created.
    pub(super) fn not_made(&self, begun: &[FileId], made: &[FileId]) {
        begun.iter().filter(|id| !made.contains(id)).for_each(|id| {
            self.writers.ended(*id, End::Read);
            self.writers.settled(*id);
        });
    }

    pub(super) fn create_in(
        &self,
        t: &mut dyn Transaction,
        place: &FilePath,
        (owner, existing, choice, node): (Owner, Existing, &LayoutChoice, &str),
        opens: Option<&mut Vec<FileId>>,
    ) -> Result<(Attributes, Removed)> {
        let map = self.map();
        let random = thalweg_wire::protocol::common::random_u64();
        let make = || {
            let owner = self.owner_of_new(owner, FileKind::File)?;
            let now_ns = self.now_ns();
            let (parent, name) = find_parent(t, place)?;
            let mut above = directory_of(t, parent)?;
            let Node::Directory { default_layout, .. } = &above.node else { unreachable!("directory_of checks") };
            let lot = match choice.lot {
                Some(asked) => Some(rules::asked(t, self.who, asked)?),
                None => rules::inherited(t, self.who, &above)?,
            };
            let layout = placement::place(choice, default_layout.as_ref(), (&map, lot.as_ref()), node, random)?;
            let old = match entry(t, parent, name)? {
                None => None,
                Some(found) if found.kind == FileKind::Directory => return Err(is_directory()),
                Some(_) if existing == Existing::Refuse => return Err(exists()),
                Some(found) if existing == Existing::Draft => {
                    self.may_change(t, found.id)?;
                    draft_rows::gives_way(t, found, name)?;
                    drop_name(t, found.id, now_ns)?
                }
                Some(found) => {
                    self.may_change(t, found.id)?;
                    drop_name(t, found.id, now_ns)?
                }
            };
            let id = self.fresh()?;
            let mut made = Inode::new(Node::File(layout), in_directory(&above, owner, false), now_ns);
            made.sizing = if let Some(begun) = opens {
                // Counted as a writer before the file can be found, and after the last point of failure.
                begun.push(id);
                self.writers.begins(id);
                self.writers.opens(id, (Some(Settlement::empty(self.boots.now())), false), self.boots.now());
                Sizing::Open
            } else {
                Sizing::Settled(Settlement::empty(self.boots.now()))
            };
            above.modified(now_ns);
            put_inode(t, parent, &above);
            put_inode(t, id, &made);
            t.put(Table::Entries, &entry_key(parent, name), encode(&Entry { id, kind: FileKind::File }));
            if existing == Existing::Draft {
                draft_rows::put(t, id, parent, name);
            }
            Ok((made.attributes(id), Removed(old)))
        };
        on(place, make())
    }

    /// Creates a symbolic link, a named pipe, a socket or a device.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`], [`ErrorKind::NotFound`], [`ErrorKind::NotDirectory`]; [`ErrorKind::NameTooLong`] or [`ErrorKind::Invalid`]
    /// for an invalid link target.
    pub(crate) fn make_node(&self, watch: &mut dyn Watch, place: &FilePath, node: &NewNode, owner: Owner) -> Result<Attributes> {
        self.change(watch, |t| self.make_node_in(t, place, node, owner))
    }

    /// Does [`Caller::make_node`] within a transaction.
    pub(super) fn make_node_in(&self, t: &mut dyn Transaction, place: &FilePath, node: &NewNode, owner: Owner) -> Result<Attributes> {
        let mut owner = owner;
        if let NewNode::Symlink(target) = node {
            on(place, check_target(target))?;
            // A symbolic link's mode is fixed, and not checked.
            owner.mode = 0o777;
        }
        let mut make = || {
            self.may_make(node)?;
            let node = Node::from(node.clone());
            let owner = self.owner_of_new(owner, node.kind())?;
            let now_ns = self.now_ns();
            let (parent, name) = find_parent(t, place)?;
            let mut above = directory_of(t, parent)?;
            if entry(t, parent, name)?.is_some() {
                return Err(exists());
            }
            let id = self.fresh()?;
            let made = Inode::new(node, in_directory(&above, owner, false), now_ns);
            above.modified(now_ns);
            put_inode(t, parent, &above);
            put_inode(t, id, &made);
            t.put(Table::Entries, &entry_key(parent, name), encode(&Entry { id, kind: made.kind() }));
            Ok(made.attributes(id))
        };
        on(place, make())
    }

    /// Adds a name to a file.
    ///
    /// # Errors
    /// [`ErrorKind::NotPermitted`] for a directory, [`ErrorKind::Exists`], [`ErrorKind::NotFound`] also for a file that has lost its last
    /// name, [`ErrorKind::TooManyLinks`], [`ErrorKind::CrossLot`].
    pub(crate) fn link(&self, watch: &mut dyn Watch, file: &FilePath, to: &FilePath) -> Result<Attributes> {
        self.change(watch, |t| {
            let now_ns = self.now_ns();
            let id = on(file, find(t, file))?;
            let mut linked = on(file, inode(t, id))?;
            let (parent, name) = on(to, find_parent(t, to))?;
            on(file, self.may_use(t, linked.lot()))?;
            if on(to, entry(t, parent, name))?.is_some() {
                return on(to, Err(exists()));
            }
            let refused = match &linked.node {
                Node::Directory { .. } => Some(Error::new(ErrorKind::NotPermitted, "a directory can have only one name")),
                _ if linked.links == 0 => Some(Error::new(ErrorKind::NotFound, "it was removed")),
                _ if linked.links >= limits::LINKS => {
                    Some(Error::new(ErrorKind::TooManyLinks, format!("it has {} names, which is the maximum", linked.links)))
                }
                _ => None,
            };
            if let Some(refused) = refused {
                return on(file, Err(refused));
            }
            // A file named by its number has no source directory.
            let from = find_parent(t, file).ok().map(|(from, _)| inode(t, from)).transpose()?;
            on(to, rules::may_cross(t, self.who, &linked, from.as_ref(), &inode(t, parent)?))?;
            // A file with another name is no longer a draft.
            draft_rows::forget(t, id)?;
            linked.links += 1;
            linked.changed(now_ns);
            put_inode(t, id, &linked);
            touch_directory(t, parent, now_ns, 0)?;
            t.put(Table::Entries, &entry_key(parent, name), encode(&Entry { id, kind: linked.kind() }));
            Ok(linked.attributes(id))
        })
    }
}

/// Returns the owner of a new object in `directory`.
fn in_directory(directory: &Inode, owner: Owner, makes_directory: bool) -> Owner {
    if directory.mode & SET_GROUP == 0 {
        return owner;
    }
    Owner { gid: directory.gid, mode: if makes_directory { owner.mode | SET_GROUP } else { owner.mode }, ..owner }
}

fn check_target(target: &[u8]) -> Result<()> {
    if target.is_empty() || target.contains(&0) {
        return Err(Error::new(ErrorKind::Invalid, "a symbolic link's target must not be empty or contain a zero byte"));
    }
    if target.len() > limits::SYMLINK_BYTES {
        return Err(Error::new(
            ErrorKind::NameTooLong,
            format!("a symbolic link's target of {} bytes: expected at most {}", target.len(), limits::SYMLINK_BYTES),
        ));
    }
    Ok(())
}
