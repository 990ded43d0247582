//! The pieces of the namespace's operations: walking paths, reading and changing inodes and entries,
//! within one view or transaction.

use super::makers;
use crate::database::{PUT_BACK, Table, Transaction, View};
use crate::inode::{Entry, Inode, Intent, Node, decode, decode_inode, encode_inode, encode_intent, entry_key, id_key, id_of, missing};
use thalweg_layout::Spec;
use thalweg_wire::protocol::metadata::{
    Attributes, DirectoryEntry, FileId, FileKind, FileLayout, Lengths, Place, Placement, SetAttributes, SetTime, Settled,
};
use thalweg_wire::protocol::names::{shown, split};
use thalweg_wire::{Error, ErrorKind, Result};

/// A loop check follows parents this far. A path alone cannot make so deep a tree; renaming trees into
/// trees can.
const DEPTH: usize = 1 << 16;

/// Names the place in an error.
pub(crate) fn on<T>(place: &Place, result: Result<T>) -> Result<T> {
    result.map_err(|e| {
        // A name and what it stands for come and go together.
        let is_damage = e.kind() == ErrorKind::Stale && place.from == FileId::ROOT && !place.path.is_empty();
        let what = "the metadata database is damaged, a name is there and the row of what it stands for is not";
        let damage = || Error::new(ErrorKind::Io, format!("{what} (table inodes, {}): {PUT_BACK}", e.message()));
        if is_damage { damage() } else { e }.on_file(shown_place(place))
    })
}

/// The error for a name that stands for a file of which there is no inode.
fn nameless(id: FileId) -> Error {
    missing(Table::Inodes, &id_key(id), "and a name is there that stands for it")
}

/// A place for a person.
pub(crate) fn shown_place(place: &Place) -> String {
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

/// A name must be that of this file, if of any one.
pub(crate) fn expected(found: FileId, only: Option<FileId>) -> Result<()> {
    if only.is_none_or(|only| only == found) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Busy, "the name is another file's by now: somebody else writes to it"))
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

pub(crate) fn find<V: View + ?Sized>(view: &V, place: &Place) -> Result<FileId> {
    let names = split(&place.path)?;
    if !names.is_empty() && place.from != FileId::ROOT {
        directory_of(view, place.from)?;
    }
    Ok(walk(view, place.from, &names)?.0)
}

/// The directory a name is or will be in, and the name.
pub(super) fn find_parent<'a, V: View + ?Sized>(view: &V, place: &'a Place) -> Result<(FileId, &'a [u8])> {
    let mut names = split(&place.path)?;
    let Some(name) = names.pop() else {
        return Err(if place.from == FileId::ROOT {
            Error::new(ErrorKind::IsDirectory, "it is the root directory of the store")
        } else {
            Error::new(ErrorKind::Invalid, "a name is needed here")
        });
    };
    let (parent, kind) = walk(view, place.from, &names)?;
    if kind != FileKind::Directory {
        return Err(not_directory(names.last().expect("only a name leads to a file")));
    }
    directory_of(view, parent)?;
    Ok((parent, name))
}

/// Takes one of a file's names away. A file that loses its last one keeps its inode, with no links, and its extended
/// attributes until nobody has it open; the intent to remove it is there from now on. A truncation that is not done yet
/// comes first, and leaves that intent when it is done. Whatever else has a name is gone with its last one.
///
/// The file, if there is something to remove.
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

/// Takes an inode and its extended attributes out of the database.
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

/// What has the name gives way to what is moved there: a file to a file, an empty directory to a directory.
pub(super) fn give_way(t: &mut dyn Transaction, parent: FileId, moved: FileKind, target: Entry, now_ns: i64) -> Result<Option<FileId>> {
    match (moved == FileKind::Directory, target.kind == FileKind::Directory) {
        (false, true) => Err(is_directory()),
        (true, false) => Err(Error::new(ErrorKind::NotDirectory, "a directory cannot take the name of a file")),
        (true, true) => {
            drop_empty_directory(t, target.id)?;
            touch_directory(t, parent, now_ns, -1)?;
            Ok(None)
        }
        (false, false) => drop_name(t, target.id, now_ns),
    }
}

/// Whether `at` is neither `directory` nor below it.
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

/// Notes in a directory that its names changed, and how many subdirectories it gained.
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
            return Err(Error::new(ErrorKind::NotDirectory, "only a directory has a default layout; a file's layout never changes"));
        };
        default_layout.clone_from(choice);
    }
    changed.changed(now_ns);
    Ok(())
}

/// Numbers this far apart are next to each other: it costs less to pass over what is between than to look for the next.
const RUN_GAP: u64 = 8;
/// Fewer inodes than this are looked for one by one.
const RUN_LEAST: usize = 4;

/// Shows `each` the inodes of these files, with the file's place here, in any order. Files that were made one after the other have
/// numbers, and so inodes, next to each other: those are read in one go.
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
            // The next one is further on, or is not there.
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

/// About how many bytes an entry of a page takes in a message, without its layout: a page has each of them once.
pub(super) fn entry_cost(entry: &DirectoryEntry) -> usize {
    entry.name.len() + 16 + entry.attributes.as_ref().map_or(0, slim_cost)
}

/// About how many bytes a layout takes in a message.
pub(super) fn layout_cost(layout: &FileLayout) -> usize {
    5 * layout.targets.len() + spec_cost(&layout.spec) + 16
}

fn spec_cost(spec: &Spec) -> usize {
    spec.name.len() + spec.parameters.iter().map(|(k, v)| k.len() + v.len() + 6).sum::<usize>()
}

/// About how many bytes attributes take in a message; rather more than less.
pub(crate) fn attributes_cost(attributes: &Attributes) -> usize {
    let lengths = match &attributes.settled {
        Some(Settled { lengths: Lengths::AtLeast(lengths), .. }) => 10 * lengths.len(),
        _ => 0,
    };
    slim_cost(attributes) + lengths + attributes.layout.as_deref().map_or(0, layout_cost)
}

/// The same without the layout.
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
