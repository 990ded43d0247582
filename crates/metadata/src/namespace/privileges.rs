//! What only the store's own credential may store: privileges that a machine which mounts or copies the store might honour.
//!
//! A store believes what its clients say about users, so anybody with a credential is root of a mount somewhere. Root of a mount is not root of
//! the store. The rule is that of the system calls: an owner's credential may store what a program without capabilities may.
//!
//! | what | the store's own credential | an owner's |
//! |---|---|---|
//! | set-user bit; set-group bit, unless of a directory | stored | refused |
//! | set-group bit of a directory | stored | stored: it only hands the directory's group down |
//! | device nodes | made, changed | not made; those that are there keep their mode and owner |
//! | attributes in `security.`, `trusted.` and any other space than `user.` | set, removed | refused; `security.capability` may be removed |
//! | user 0 and group 0 of what is made | stored | user and group 65534, as with `root_squash` of NFS |
//! | a change of the user | done | refused, unless it is the file's already; 0 stands for 65534 |
//! | a change of the group | done | done, but not to 0 |
//!
//! A file keeps its privileges only while nobody without them changes it: whatever such a credential does to its bytes or its group takes set-user
//! and set-group bits and capabilities away first, as writing does on Linux.

use super::caller::Caller;
use super::tree::{self, inode, put_inode};
use crate::database::{Table, Transaction, View, Watch, read, write};
use crate::inode::{Inode, decode, extended_key};
use thalweg_wire::protocol::metadata::{FileId, FileKind, NewNode, Owner, SetAttributes};
use thalweg_wire::trust::Rights;
use thalweg_wire::{Error, ErrorKind, Result};

const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2000;
const ROOT: u32 = 0;
/// The user and the group that stand for root of a client's machine: `nobody` and `nogroup`.
const NOBODY: u32 = 65_534;
/// The attributes that any program may set.
const USER_SPACE: &[u8] = b"user.";
/// What a program may do when it is run, beyond what its user may.
const CAPABILITIES: &[u8] = b"security.capability";

impl Caller<'_> {
    /// Whether what the caller stores is stored as it is.
    fn has_all(&self) -> bool {
        self.who.rights == Rights::Store
    }

    fn refuse<T>(&self, what: &str) -> Result<T> {
        let problem = format!("{what} only with the store's own credential, and this is `{}`'s", self.who.owner);
        Err(Error::new(ErrorKind::NotPermitted, problem))
    }

    fn may_have_mode(&self, kind: FileKind, mode: u32) -> Result<()> {
        if self.has_all() || mode & privileged_bits(kind) == 0 {
            return Ok(());
        }
        self.refuse(&format!("mode {:o}: set-user and set-group bits are taken", mode & 0o7777))
    }

    /// The owner and mode that what the caller makes gets.
    ///
    /// # Errors
    /// [`ErrorKind::NotPermitted`] for a mode with privileges.
    pub(super) fn owner_of_new(&self, owner: Owner, kind: FileKind) -> Result<Owner> {
        if self.has_all() {
            return Ok(owner);
        }
        self.may_have_mode(kind, owner.mode)?;
        Ok(Owner { uid: of_client(owner.uid), gid: of_client(owner.gid), ..owner })
    }

    /// Refuses device nodes.
    pub(super) fn may_make(&self, node: &NewNode) -> Result<()> {
        match node {
            NewNode::CharacterDevice(_) | NewNode::BlockDevice(_) if !self.has_all() => self.refuse("device nodes are made"),
            _ => Ok(()),
        }
    }

    /// Changes attributes, as far as the caller may.
    ///
    /// # Errors
    /// [`ErrorKind::NotPermitted`], and as [`tree::apply`].
    pub(super) fn apply(&self, t: &mut dyn Transaction, id: FileId, changed: &mut Inode, set: &SetAttributes, now_ns: i64) -> Result<()> {
        if self.has_all() {
            return tree::apply(changed, set, now_ns);
        }
        let kind = changed.kind();
        let mut set = set.clone();
        if let Some(uid) = set.uid.take().filter(|uid| *uid != changed.uid)
            && of_client(uid) != changed.uid
        {
            self.refuse::<()>(&format!("user {uid}: the user of a file is changed"))?;
        }
        let gid = set.gid.take().filter(|gid| *gid != changed.gid && of_client(*gid) != changed.gid);
        if gid == Some(ROOT) {
            self.refuse::<()>("group 0: a file is given to it")?;
        }
        let mode = set.mode.filter(|mode| mode & 0o7777 != changed.mode);
        mode.map_or(Ok(()), |mode| self.may_have_mode(kind, mode))?;
        if matches!(kind, FileKind::CharacterDevice | FileKind::BlockDevice) && (gid.is_some() || mode.is_some()) {
            self.refuse::<()>("mode and owner of a device node are changed")?;
        }
        if gid.is_some() {
            self.disarm_in(t, id, changed)?;
        }
        // What is asked again stays, and what was taken away does not come back with it.
        set.mode = mode;
        set.gid = gid;
        tree::apply(changed, &set, now_ns)
    }

    /// Refuses attributes that mean something to the system.
    pub(super) fn may_set_extended(&self, name: &[u8]) -> Result<()> {
        if self.has_all() || name.starts_with(USER_SPACE) {
            return Ok(());
        }
        self.refuse(&format!("the attribute `{}` is changed", thalweg_wire::protocol::names::shown(name)))
    }

    /// The same of their removal, which takes a program's privileges away.
    pub(super) fn may_remove_extended(&self, name: &[u8]) -> Result<()> {
        if name == CAPABILITIES { Ok(()) } else { self.may_set_extended(name) }
    }

    /// The caller is going to change a file's bytes: its privileges go, unless the caller may store them. Whether there were any.
    pub(super) fn disarm_in(&self, t: &mut dyn Transaction, id: FileId, changed: &mut Inode) -> Result<bool> {
        if self.has_all() || !is_armed(t, id, changed)? {
            return Ok(false);
        }
        changed.mode &= !privileged_bits(changed.kind());
        if let Some(bytes) = capabilities(t, id, changed)? {
            t.delete(Table::Extended, &extended_key(id, CAPABILITIES));
            changed.extended_bytes = changed.extended_bytes.saturating_sub(bytes);
        }
        Ok(true)
    }

    /// The same before a file is opened for writing.
    ///
    /// # Errors
    /// The database's.
    pub(crate) fn disarm(&self, watch: &mut dyn Watch, id: FileId) -> Result<()> {
        if self.has_all() || !read(&**self.database(), |view| is_armed(view, id, &inode(view, id)?))? {
            return Ok(());
        }
        write(&**self.database(), watch, |t| {
            let mut changed = inode(t, id)?;
            if self.disarm_in(t, id, &mut changed)? {
                changed.changed(self.now_ns());
                put_inode(t, id, &changed);
            }
            Ok(())
        })
    }
}

/// The bits of a mode that lend a program the rights of its file's owner.
fn privileged_bits(kind: FileKind) -> u32 {
    if kind == FileKind::Directory { SET_USER } else { SET_USER | SET_GROUP }
}

/// Root of a client's machine is nobody here.
fn of_client(number: u32) -> u32 {
    if number == ROOT { NOBODY } else { number }
}

/// Whether a file lends rights to those who run it.
fn is_armed<V: View + ?Sized>(view: &V, id: FileId, file: &Inode) -> Result<bool> {
    if file.kind() != FileKind::File {
        return Ok(false);
    }
    Ok(file.mode & privileged_bits(FileKind::File) != 0 || capabilities(view, id, file)?.is_some())
}

/// How many bytes a file's capabilities take, if it has any.
fn capabilities<V: View + ?Sized>(view: &V, id: FileId, file: &Inode) -> Result<Option<u32>> {
    if file.extended_bytes == 0 {
        return Ok(None);
    }
    let key = extended_key(id, CAPABILITIES);
    let value: Option<Vec<u8>> = view.get(Table::Extended, &key)?.map(|value| decode(Table::Extended, &key, &value)).transpose()?;
    Ok(value.map(|value| (CAPABILITIES.len() + value.len()) as u32))
}
