//! Privileges that only the store's own credential may store, since a machine that mounts or copies the store might honour them.
//!
//! A store trusts its clients' claims about users, so the holder of any credential can be root of a mount. Root of a mount is not root of
//! the store. The rule is that of the system calls: an owner's credential may store what a program without capabilities may.
//!
//! | object | the store's own credential | an owner's |
//! |---|---|---|
//! | set-user bit; set-group bit, unless of a directory | stored | refused |
//! | set-group bit of a directory | stored | stored: it only makes new files inherit the group |
//! | device nodes | created, changed | not created; existing ones keep their mode and owner |
//! | attributes in `security.`, `trusted.` and any other namespace than `user.` | set, removed | refused; `security.capability` may be
//! removed |
//! | user 0 and group 0 of new files | stored | user and group 65534, as with `root_squash` of NFS |
//! | a change of the user | allowed | refused, except to the current user; 0 stands for 65534 |
//! | a change of the group | allowed | allowed, but not to 0 |
//!
//! A file loses its privileges when a credential without them changes it: before it changes the file's bytes or group, set-user and
//! set-group bits and capabilities are removed, as writing does on Linux.

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
/// The user and group that represent root of a client's machine: `nobody` and `nogroup`.
const NOBODY: u32 = 65_534;
/// The namespace of attributes that any program may set.
const USER_SPACE: &[u8] = b"user.";
/// The attribute with a program's capabilities.
const CAPABILITIES: &[u8] = b"security.capability";

impl Caller<'_> {
    /// Returns whether the caller may store any privilege.
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

    /// Returns the owner and mode of an object that the caller creates.
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

    /// Changes attributes as far as the caller may.
    ///
    /// # Errors
    /// [`ErrorKind::NotPermitted`], and those of [`tree::apply`].
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
        // Repeating the current bits keeps them, but does not restore removed ones.
        set.mode = mode;
        set.gid = gid;
        tree::apply(changed, &set, now_ns)
    }

    /// Refuses attributes that are significant to the system.
    pub(super) fn may_set_extended(&self, name: &[u8]) -> Result<()> {
        if self.has_all() || name.starts_with(USER_SPACE) {
            return Ok(());
        }
        self.refuse(&format!("the attribute `{}` is changed", thalweg_wire::protocol::names::shown(name)))
    }

    /// Refuses to remove such attributes, except capabilities, whose removal takes privileges away.
    pub(super) fn may_remove_extended(&self, name: &[u8]) -> Result<()> {
        if name == CAPABILITIES { Ok(()) } else { self.may_set_extended(name) }
    }

    /// Removes a file's privileges before the caller changes its bytes, unless the caller may store them. Returns whether it had any.
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

    /// Removes a file's privileges before it is opened for writing.
    ///
    /// # Errors
    /// An error of the database.
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

/// Returns the set-user and set-group bits that give a program its file's rights.
fn privileged_bits(kind: FileKind) -> u32 {
    if kind == FileKind::Directory { SET_USER } else { SET_USER | SET_GROUP }
}

/// Maps root of a client's machine to nobody.
fn of_client(number: u32) -> u32 {
    if number == ROOT { NOBODY } else { number }
}

/// Returns whether a file gives privileges to those who run it.
fn is_armed<V: View + ?Sized>(view: &V, id: FileId, file: &Inode) -> Result<bool> {
    if file.kind() != FileKind::File {
        return Ok(false);
    }
    Ok(file.mode & privileged_bits(FileKind::File) != 0 || capabilities(view, id, file)?.is_some())
}

/// Returns the size of a file's capabilities, if it has any.
fn capabilities<V: View + ?Sized>(view: &V, id: FileId, file: &Inode) -> Result<Option<u32>> {
    if file.extended_bytes == 0 {
        return Ok(None);
    }
    let key = extended_key(id, CAPABILITIES);
    let value: Option<Vec<u8>> = view.get(Table::Extended, &key)?.map(|value| decode(Table::Extended, &key, &value)).transpose()?;
    Ok(value.map(|value| (CAPABILITIES.len() + value.len()) as u32))
}
