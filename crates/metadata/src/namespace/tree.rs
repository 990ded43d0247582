//! Building blocks of the namespace's operations within one view or transaction: walking paths, reading and changing inodes and entries.

use super::makers;
use crate::database::{PUT_BACK, Table, Transaction, View};
use crate::inode::{Entry, Inode, Intent, Node, decode, decode_inode, encode_inode, encode_intent, entry_key, id_key, id_of, missing};
use thalweg_layout::Spec;
use thalweg_wire::protocol::metadata::{
    Attributes, DirectoryEntry, FileId, FileKind, FileLayout, FilePath, Lengths, Placement, SetAttributes, SetTime, Settled,
};
use thalweg_wire::protocol::names::{shown, split};
use thalweg_wire::{Error, ErrorKind, Result};

/// Bound: ancestors followed by a loop check. Paths alone cannot create such a deep tree, but renaming trees into trees can.
const DEPTH: usize = 1 << 16;

/// Adds the place to an error.
pub(crate) fn on<T>(place: &FilePath, result: Result<T>) -> Result<T> {
    result.map_err(|e| {
        // A name and its inode exist together or not at all.
        let is_damage = e.kind() == ErrorKind::Stale && place.from == FileId::ROOT && !place.path.is_empty();
        let what = "the metadata database is damaged: a name exists but its inode's row is missing";
        let damage = || Error::new(ErrorKind::Io, format!("{what} (table inodes, {}): {PUT_BACK}", e.message()));
        if is_damage { damage() } else { e }.on_file(shown_place(place))
    })
}

/// Returns the error for a name whose inode is missing.
fn nameless(id: FileId) -> Error {
    missing(Table::Inodes, &id_key(id), "although a name refers to it")
}

/// Formats a place for messages.
pub(crate) fn shown_place(place: &FilePath) -> String {
    let path = shown(&place.path);
    match place.from {
        FileId::ROOT if path.starts_with('/') => path,
        FileId::ROOT => format!("/{path}"),
        id if path.is_empty() => format!("file {id}"),
        id => format!("directory {id}: {path}"),
    }
}

pub(super) fn not_found(name: &[u8]) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no `{}`", shown(name)))
}

pub(super) fn not_directory(name: &[u8]) -> Error {
    Error::new(ErrorKind::NotDirectory, format!("`{}` is not a directory", shown(name)))
}

pub(super) fn is_directory() -> Error {
    Error::new(ErrorKind::IsDirectory, "it is a directory")
}

/// Checks that a name refers to the file `only`, if given.
pub(crate) fn expected(found: FileId, only: Option<FileId>) -> Result<()> {
    if only.is_none_or(|only| only == found) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Busy, "the name now belongs to another file: another program has replaced it"))
}

pub(crate) fn exists() -> Error {
    Error::new(ErrorKind::Exists, "it exists already")
}

pub(crate) fn put_inode(t: &mut dyn Transaction, id: FileId, inode: &Inode) {
    t.put(Table::Inodes, &id_key(id), encode_inode(inode));
}

pub(crate) fn inode<V: View + ?Sized>(view: &V, id: FileId) -> Result<Inode> {
    let key = id_key(id);
    match view.get(Table::Inodes, &key)? {
        Some(value) => decode_inode(&key, &value),
        None => Err(Error::new(ErrorKind::Stale, format!("{id} is gone: it was removed"))),
    }
}

pub(super) fn directory_of<V: View + ?Sized>(view: &V, id: FileId) -> Result<Inode> {
    let found = inode(view, id)?;
    match found.node {
        Node::Directory { .. } => Ok(found),
        _ => Err(Error::new(ErrorKind::NotDirectory, "it is not a directory")),
    }
}

pub(crate) fn entry<V: View + ?Sized>(view: &V, parent: FileId, name: &[u8]) -> Result<Option<Entry>> {
    let key = entry_key(parent, name);
    view.get(Table::Entries, &key)?.map(|value| decode(Table::Entries, &key, &value)).transpose()
}

/// Walks `names` from a directory.
pub(crate) fn walk<V: View + ?Sized>(view: &V, from: FileId, names: &[&[u8]]) -> Result<(FileId, FileKind)> {
    let mut at = (from, FileKind::Directory);
    for (i, name) in names.iter().enumerate() {
        if at.1 != FileKind::Directory {
            return Err(not_directory(names[i - 1]));
        }
        let found = entry(view, at.0, name)?.ok_or_else(|| not_found(name))?;
        at = (found.id, found.kind);
    }
    Ok(at)
}

pub(crate) fn find<V: View + ?Sized>(view: &V, place: &FilePath) -> Result<FileId> {
    let names = split(&place.path)?;
    if !names.is_empty() && place.from != FileId::ROOT {
        directory_of(view, place.from)?;
    }
    Ok(walk(view, place.from, &names)?.0)
}

/// Returns the directory that contains or will contain a name, and the name.
pub(super) fn find_parent<'a, V: View + ?Sized>(view: &V, place: &'a FilePath) -> Result<(FileId, &'a [u8])> {
    let mut names = split(&place.path)?;
    let Some(name) = names.pop() else {
        return Err(if place.from == FileId::ROOT {
            Error::new(ErrorKind::IsDirectory, "it is the root directory of the store")
        } else {
            Error::new(ErrorKind::Invalid, "expected a name")
        });
    };
    let (parent, kind) = walk(view, place.from, &names)?;
    if kind != FileKind::Directory {
        return Err(not_directory(names.last().expect("only a name leads to a file")));
    }
    directory_of(view, parent)?;
    Ok((parent, name))
}

/// Removes one of a file's names. A file that loses its last name keeps its inode, with no links, and its extended attributes until it is
/// not open; the intent to remove it is created now. A pending truncation completes first, and then creates that intent. Other objects are
/// deleted with their last name.
///
/// Returns the file if there is something to remove.
pub(super) fn drop_name(t: &mut dyn Transaction, id: FileId, now_ns: i64) -> Result<Option<FileId>> {
    let mut dropped = inode(t, id)?;
    dropped.links = dropped.links.saturating_sub(1);
    dropped.changed(now_ns);
    match &dropped.node {
        _ if dropped.links > 0 => {
            put_inode(t, id, &dropped);
            Ok(None)
        }
        Node::File(layout) => {
            super::draft_rows::forget(t, id)?;
            if t.get(Table::Intents, &id_key(id))?.is_none() {
                t.put(Table::Intents, &id_key(id), encode_intent(&Intent::remove(layout)));
            }
            put_inode(t, id, &dropped);
            Ok(Some(id))
        }
        _ => {
            erase(t, id, &dropped)?;
            Ok(None)
        }
    }
}

/// Deletes an inode and its extended attributes from the database.
pub(super) fn erase(t: &mut dyn Transaction, id: FileId, erased: &Inode) -> Result<()> {
    t.delete(Table::Inodes, &id_key(id));
    if erased.extended_bytes > 0 {
        let mut keys = Vec::new();
        t.scan(Table::Extended, &id_key(id), None, &mut |key, _| {
            keys.push(key.to_vec());
            true
        })?;
        keys.iter().for_each(|key| t.delete(Table::Extended, key));
    }
    Ok(())
}

pub(super) fn drop_empty_directory(t: &mut dyn Transaction, id: FileId) -> Result<()> {
    let mut empty = true;
    t.scan(Table::Entries, &id_key(id), None, &mut |_, _| {
        empty = false;
        false
    })?;
    if !empty {
        return Err(Error::new(ErrorKind::NotEmpty, "the directory is not empty"));
    }
    let dropped = inode(t, id)?;
    makers::gone(t, id)?;
    erase(t, id, &dropped)
}

/// Removes the object that is replaced by a rename: a file by a file, an empty directory by a directory.
pub(super) fn give_way(t: &mut dyn Transaction, parent: FileId, moved: FileKind, target: Entry, now_ns: i64) -> Result<Option<FileId>> {
    match (moved == FileKind::Directory, target.kind == FileKind::Directory) {
        (false, true) => Err(is_directory()),
        (true, false) => Err(Error::new(ErrorKind::NotDirectory, "a directory cannot replace a file")),
        (true, true) => {
            drop_empty_directory(t, target.id)?;
            touch_directory(t, parent, now_ns, -1)?;
            Ok(None)
        }
        (false, false) => drop_name(t, target.id, now_ns),
    }
}

/// Checks that `at` is neither `directory` nor below it.
pub(super) fn not_within<V: View + ?Sized>(view: &V, mut at: FileId, directory: FileId) -> Result<()> {
    for _ in 0..DEPTH {
        if at == directory {
            return Err(Error::new(ErrorKind::Invalid, "a directory cannot be moved into itself"));
        }
        if at == FileId::ROOT {
            return Ok(());
        }
        let Node::Directory { parent, .. } = directory_of(view, at)?.node else { unreachable!("directory_of checks") };
        at = parent;
    }
    Err(Error::new(ErrorKind::Invalid, format!("the directory is more than {DEPTH} levels deep")))
}

/// Records in a directory that its names changed, and how many subdirectories it gained.
pub(super) fn touch_directory(t: &mut dyn Transaction, id: FileId, now_ns: i64, gained: i64) -> Result<()> {
    let mut directory = directory_of(t, id)?;
    directory.links = directory.links.saturating_add_signed(i32::try_from(gained).expect("one at a time"));
    directory.modified(now_ns);
    put_inode(t, id, &directory);
    Ok(())
}

/// Changes an inode's attributes.
pub(crate) fn apply(changed: &mut Inode, set: &SetAttributes, now_ns: i64) -> Result<()> {
    let time = |time: SetTime| match time {
        SetTime::Now => now_ns,
        SetTime::At(ns) => ns,
    };
    changed.mode = set.mode.map_or(changed.mode, |mode| mode & 0o7777);
    changed.uid = set.uid.unwrap_or(changed.uid);
    changed.gid = set.gid.unwrap_or(changed.gid);
    changed.accessed_ns = set.accessed.map_or(changed.accessed_ns, time);
    changed.modified_ns = set.modified.map_or(changed.modified_ns, time);
    if let Some(choice) = &set.default_layout {
        let Node::Directory { default_layout, .. } = &mut changed.node else {
            return Err(Error::new(ErrorKind::NotDirectory, "only a directory has a default layout"));
        };
        default_layout.clone_from(choice);
    }
    changed.changed(now_ns);
    Ok(())
}

/// Bound: distance of numbers read in one scan. Skipping rows up to this distance is cheaper than a new search.
const RUN_GAP: u64 = 8;
/// Below this number of inodes each is searched individually.
const RUN_LEAST: usize = 4;

/// Calls `each` with the inodes of these files and their indices, in any order. Files created in succession have adjacent inodes, which are
/// read in one scan.
pub(super) fn inodes_of(view: &dyn View, files: &[FileId], mut each: impl FnMut(usize, &[u8]) -> Result<()>) -> Result<()> {
    let mut order: Vec<(FileId, usize)> = files.iter().enumerate().map(|(at, id)| (*id, at)).collect();
    order.sort_unstable();
    for run in order.chunk_by(|(one, _), (next, _)| next.0 - one.0 <= RUN_GAP) {
        if run.len() < RUN_LEAST {
            for &(id, at) in run {
                each(at, &view.get(Table::Inodes, &id_key(id))?.ok_or_else(|| nameless(id))?)?;
            }
            continue;
        }
        let mut wanted = run.iter().peekable();
        let mut failed = None;
        let before = run[0].0.0.checked_sub(1).map(|before| id_key(FileId(before)));
        view.scan(Table::Inodes, &[], before.as_ref().map(|key| &key[..]), &mut |key, value| {
            let Some(here) = id_of(key) else { return true };
            while let Some((_, at)) = wanted.next_if(|(id, _)| *id == here) {
                failed = failed.take().or_else(|| each(*at, value).err());
            }
            // The next inode is further away, or missing.
            failed.is_none() && wanted.peek().is_some_and(|(id, _)| *id > here)
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        if let Some((id, _)) = wanted.peek() {
            return Err(nameless(*id));
        }
    }
    Ok(())
}

/// Returns the approximate size of a page's entry in a message, without its layout: a page contains each layout once.
pub(super) fn entry_cost(entry: &DirectoryEntry) -> usize {
    entry.name.len() + 16 + entry.attributes.as_ref().map_or(0, slim_cost)
}

/// Returns the approximate size of a layout in a message.
pub(super) fn layout_cost(layout: &FileLayout) -> usize {
    5 * layout.targets.len() + spec_cost(&layout.spec) + 16
}

fn spec_cost(spec: &Spec) -> usize {
    spec.name.len() + spec.parameters.iter().map(|(k, v)| k.len() + v.len() + 6).sum::<usize>()
}

/// Returns the approximate size of attributes in a message, rounded up.
pub(crate) fn attributes_cost(attributes: &Attributes) -> usize {
    let lengths = match &attributes.settled {
        Some(Settled { lengths: Lengths::AtLeast(lengths), .. }) => 10 * lengths.len(),
        _ => 0,
    };
    slim_cost(attributes) + lengths + attributes.layout.as_deref().map_or(0, layout_cost)
}

/// Returns the approximate size of attributes without the layout.
fn slim_cost(attributes: &Attributes) -> usize {
    let choice = attributes.default_layout.as_ref().map_or(0, |choice| {
        let targets = match &choice.placement {
            Some(Placement::Targets(list)) => 5 * list.len(),
            _ => 16,
        };
        targets + choice.spec.as_ref().map_or(0, spec_cost) + 16
    });
    let lost = attributes.lost.as_ref().map_or(0, |lost| 25 * lost.ranges().len() + 10);
    112 + choice + lost + attributes.target.as_ref().map_or(0, Vec::len)
}
