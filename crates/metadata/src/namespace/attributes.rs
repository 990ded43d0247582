//! Changes of files other than names: attributes, sizes, layouts, extended attributes.

use super::Namespace;
use super::caller::Caller;
use super::placement;
use super::tree::*;
use crate::database::{Table, Transaction, View, Watch, read, write};
use crate::inode::{Inode, Intent, Node, Settlement, Sizing, Written, decode, decode_intent, encode, encode_intent, extended_key, id_key};
use crate::lots::rules;
use crate::sizes::boots::Standing;
use thalweg_wire::limits;
use thalweg_wire::protocol::lots::Lot;
use thalweg_wire::protocol::metadata::{
    Attributes, FileId, FileLayout, FilePath, LayoutChoice, Lost, SetAttributes, SetExtended, TargetId,
};
use thalweg_wire::{Error, ErrorKind, Result};

impl Namespace {
    /// Returns a file's layout. The caller ensures that there are no datafiles before it changes the layout.
    ///
    /// # Errors
    /// [`ErrorKind::IsDirectory`], and those of [`Namespace::stat`].
    pub(crate) fn layout_of(&self, id: FileId) -> Result<FileLayout> {
        read(&*self.database, |view| file_layout(&inode(view, id)?).cloned())
    }

    /// Returns a symbolic link's target.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for another kind of file, and those of [`Namespace::stat`].
    pub(crate) fn read_symlink(&self, place: &FilePath) -> Result<Vec<u8>> {
        on(
            place,
            read(&*self.database, |view| match inode(view, find(view, place)?)?.node {
                Node::Symlink(target) => Ok(target),
                _ => Err(Error::new(ErrorKind::Invalid, "it is not a symbolic link")),
            }),
        )
    }

    /// Returns an extended attribute's value.
    ///
    /// # Errors
    /// Those of [`Namespace::stat`]; [`ErrorKind::NameTooLong`].
    pub(crate) fn get_extended(&self, place: &FilePath, name: &[u8]) -> Result<Option<Vec<u8>>> {
        on(
            place,
            read(&*self.database, |view| {
                check_extended_name(name)?;
                let id = find(view, place)?;
                inode(view, id)?;
                extended(view, id, name)
            }),
        )
    }

    /// Returns the names of all extended attributes, in order.
    ///
    /// # Errors
    /// Those of [`Namespace::stat`].
    pub(crate) fn list_extended(&self, place: &FilePath) -> Result<Vec<Vec<u8>>> {
        on(
            place,
            read(&*self.database, |view| {
                let id = find(view, place)?;
                let mut names = Vec::new();
                if inode(view, id)?.extended_bytes > 0 {
                    view.scan(Table::Extended, &id_key(id), None, &mut |key, _| {
                        names.push(key[8..].to_vec());
                        true
                    })?;
                }
                Ok(names)
            }),
        )
    }

    /// Returns the knowledge of a settled file whose size changes. A client that truncates a file with possibly lost bytes accepts the
    /// loss.
    fn unasked(&self, before: &Settlement, targets: &[TargetId]) -> Sizing {
        match self.boots.known_starts(&self.map()).standing(before, targets) {
            Standing::Pending => Sizing::Unasked { boots: before.boots, unsynced: before.unsynced },
            Standing::Durable | Standing::Doubtful => Sizing::Unknown,
        }
    }

    fn extended_changed(&self, t: &mut dyn Transaction, id: FileId, changed: &mut Inode, bytes: usize) {
        changed.extended_bytes = u32::try_from(bytes).expect("bounded by EXTENDED_BYTES");
        changed.changed(self.now_ns());
        put_inode(t, id, changed);
    }
}

impl Caller<'_> {
    /// Changes attributes.
    ///
    /// # Errors
    /// Those of [`Namespace::stat`]; [`ErrorKind::NotDirectory`] for a default layout of a file.
    pub(crate) fn set_attributes(&self, watch: &mut dyn Watch, place: &FilePath, set: &SetAttributes) -> Result<Attributes> {
        self.change(watch, |t| self.set_attributes_in(t, place, set))
    }

    pub(super) fn set_attributes_in(&self, t: &mut dyn Transaction, place: &FilePath, set: &SetAttributes) -> Result<Attributes> {
        let mut change = || {
            let id = find(t, place)?;
            let mut changed = inode(t, id)?;
            self.check_default(t, (id, &changed), set)?;
            // A client that may only remove its lot from the directory can change nothing else.
            if !changes_the_lot_alone(&changed, set) {
                self.may_alter(t, (id, &changed))?;
            }
            self.apply(t, id, &mut changed, set, self.now_ns())?;
            put_inode(t, id, &changed);
            Ok(changed.attributes(id))
        };
        on(place, change())
    }

    /// Checks that a directory can have the requested default layout, and that the caller may set its lot. Files already in the directory
    /// keep their lot.
    pub(super) fn check_default(&self, view: &dyn View, (id, directory): (FileId, &Inode), set: &SetAttributes) -> Result<()> {
        let Some(choice) = &set.default_layout else { return Ok(()) };
        let lot = choice.as_ref().and_then(|choice| choice.lot);
        let is_directory = matches!(directory.node, Node::Directory { .. });
        let lot = if is_directory { rules::may_put(view, self.who, (id, directory), lot)? } else { None };
        choice.as_ref().map_or(Ok(()), |choice| placement::check(choice, &self.map(), lot.as_ref()))
    }

    /// Sets a file's size and returns its new attributes; the work at the I/O servers becomes an intent.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] while an earlier truncation is pending; [`ErrorKind::IsDirectory`].
    pub(crate) fn truncate(&self, watch: &mut dyn Watch, place: &FilePath, size_bytes: u64) -> Result<Attributes> {
        if size_bytes > limits::FILE_BYTES {
            return on(
                place,
                Err(Error::new(ErrorKind::TooLarge, format!("a size of {size_bytes} bytes: expected at most {}", limits::FILE_BYTES))),
            );
        }
        on(
            place,
            write(&*self.database, watch, |t| {
                let now_ns = self.now_ns();
                let id = find(t, place)?;
                let mut changed = inode(t, id)?;
                let layout = file_layout(&changed)?;
                self.may_use(t, layout.lot)?;
                let layout = layout.clone();
                self.disarm_in(t, id, &mut changed)?;
                // The pending removal of a file without names is kept: the truncation's completion renews it.
                let pending = t.get(Table::Intents, &id_key(id))?;
                let pending = pending.map(|v| decode_intent(&id_key(id), &v)).transpose()?;
                if matches!(pending, Some(Intent::Truncate { .. })) {
                    return Err(Error::new(
                        ErrorKind::Busy,
                        "an earlier truncation of this file is pending, since one of its I/O servers \
                        is unreachable",
                    ));
                }
                t.put(Table::Intents, &id_key(id), encode_intent(&Intent::Truncate { size_bytes, layout: layout.clone() }));
                self.writers.touches(id);
                let sizing = match &changed.sizing {
                    Sizing::Settled(before) if size_bytes > 0 => self.unasked(before, &layout.targets),
                    // A file without bytes cannot lose any.
                    Sizing::Settled(_) => Sizing::Unknown,
                    other => other.clone(),
                };
                changed.sizing = sizing;
                // A client that truncates a file accepts its losses.
                changed.lost = None;
                changed.modified(now_ns);
                put_inode(t, id, &changed);
                Ok(changed.attributes(id))
            }),
        )
    }

    /// Records that a client's writes up to `size_bytes` have reached the I/O servers.
    ///
    /// # Errors
    /// [`ErrorKind::Stale`] if the file is gone, [`ErrorKind::IsDirectory`].
    pub(crate) fn written(&self, watch: &mut dyn Watch, id: FileId, size_bytes: u64) -> Result<Attributes> {
        self.change(watch, |t| self.written_in(t, id, size_bytes))
    }

    pub(super) fn written_in(&self, t: &mut dyn Transaction, id: FileId, size_bytes: u64) -> Result<Attributes> {
        let mut change = || {
            let mut changed = inode(t, id)?;
            self.may_use(t, file_layout(&changed)?.lot)?;
            self.disarm_in(t, id, &mut changed)?;
            changed.modified(self.now_ns());
            changed.written = Some(Written { size_bytes, change: changed.change });
            put_inode(t, id, &changed);
            Ok(changed.attributes(id))
        };
        on(&FilePath::of(id), change())
    }

    /// Records acknowledged bytes of a file that are lost, and lost ones that were written again.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a datafile that the file does not have; those of [`Caller::written`].
    pub(crate) fn lost(&self, watch: &mut dyn Watch, id: FileId, (lost, mended): (&Lost, &Lost)) -> Result<Attributes> {
        on(
            &FilePath::of(id),
            write(&*self.database, watch, |t| {
                let mut changed = inode(t, id)?;
                let many = file_layout(&changed)?.targets.len();
                self.may_use(t, changed.lot())?;
                self.disarm_in(t, id, &mut changed)?;
                if lost.ranges().iter().any(|range| range.index as usize >= many) {
                    return Err(Error::new(ErrorKind::Invalid, format!("lost bytes of a datafile that it does not have: it has {many}")));
                }
                let mut now = changed.lost.take().map_or_else(Lost::default, |lost| *lost);
                now.subtract(mended);
                now.merge(lost);
                changed.lost = (!now.is_empty()).then(|| Box::new(now));
                changed.changed(self.now_ns());
                put_inode(t, id, &changed);
                Ok(changed.attributes(id))
            }),
        )
    }

    /// Checks that a file can get this layout without leaving its lot.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an invalid layout; [`ErrorKind::CrossLot`] for another lot; [`ErrorKind::Access`].
    pub(crate) fn check_relayout(&self, id: FileId, choice: &LayoutChoice) -> Result<()> {
        read(&*self.database, |view| {
            let lot = self.lot_to_stay_in(view, &inode(view, id)?, choice)?;
            placement::check(choice, &self.map(), lot.as_ref())
        })
    }

    fn lot_to_stay_in(&self, view: &dyn View, of: &Inode, choice: &LayoutChoice) -> Result<Option<Lot>> {
        let lot = file_layout(of)?.lot;
        if choice.lot.is_some() && choice.lot != lot {
            let problem = "a file stays in the lot it was created in, or outside lots: copy it with --lot";
            return Err(Error::new(ErrorKind::CrossLot, problem));
        }
        lot.map(|lot| rules::asked(view, self.who, lot)).transpose()
    }

    /// Replaces a file's layout. Unspecified parts come from the store's defaults; its lot stays.
    ///
    /// # Errors
    /// Those of [`Caller::check_relayout`] and [`Caller::written`].
    pub(crate) fn relayout(&self, watch: &mut dyn Watch, id: FileId, choice: &LayoutChoice, node: &str) -> Result<Attributes> {
        let random = thalweg_wire::protocol::common::random_u64();
        write(&*self.database, watch, |t| {
            let mut changed = inode(t, id)?;
            let lot = self.lot_to_stay_in(t, &changed, choice)?;
            let layout = placement::place(choice, None, (&self.map(), lot.as_ref()), node, random)?;
            self.writers.touches(id);
            self.disarm_in(t, id, &mut changed)?;
            changed.node = Node::File(layout);
            changed.changed(self.now_ns());
            put_inode(t, id, &changed);
            Ok(changed.attributes(id))
        })
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] and [`ErrorKind::NoAttribute`] according to `how`; [`ErrorKind::NameTooLong`], [`ErrorKind::TooLong`] and
    /// [`ErrorKind::NoSpace`] beyond the bounds; those of [`Namespace::stat`].
    pub(crate) fn set_extended(&self, watch: &mut dyn Watch, place: &FilePath, name: &[u8], value: &[u8], how: SetExtended) -> Result<()> {
        on(
            place,
            self.change(watch, |t| {
                check_extended_name(name)?;
                self.may_set_extended(name)?;
                if value.len() > limits::EXTENDED_VALUE_BYTES {
                    let most = limits::EXTENDED_VALUE_BYTES;
                    return Err(Error::new(
                        ErrorKind::TooLong,
                        format!("an extended attribute of {} bytes: expected at most {most}", value.len()),
                    ));
                }
                let id = find(t, place)?;
                let mut changed = inode(t, id)?;
                self.may_alter(t, (id, &changed))?;
                let old = extended(t, id, name)?;
                match (&old, how) {
                    (Some(_), SetExtended::Create) => return Err(exists()),
                    (None, SetExtended::Replace) => return Err(no_attribute(name)),
                    _ => {}
                }
                let before = old.map_or(0, |old| name.len() + old.len());
                let bytes = changed.extended_bytes as usize - before.min(changed.extended_bytes as usize) + name.len() + value.len();
                if bytes > limits::EXTENDED_BYTES {
                    let most = limits::EXTENDED_BYTES;
                    return Err(Error::new(
                        ErrorKind::NoSpace,
                        format!("extended attributes of {bytes} bytes: a file can have at most {most}"),
                    ));
                }
                t.put(Table::Extended, &extended_key(id, name), encode(&value));
                self.extended_changed(t, id, &mut changed, bytes);
                Ok(())
            }),
        )
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// [`ErrorKind::NoAttribute`], and those of [`Namespace::stat`].
    pub(crate) fn remove_extended(&self, watch: &mut dyn Watch, place: &FilePath, name: &[u8]) -> Result<()> {
        on(
            place,
            self.change(watch, |t| {
                check_extended_name(name)?;
                self.may_remove_extended(name)?;
                let id = find(t, place)?;
                let mut changed = inode(t, id)?;
                self.may_alter(t, (id, &changed))?;
                let old = extended(t, id, name)?.ok_or_else(|| no_attribute(name))?;
                t.delete(Table::Extended, &extended_key(id, name));
                let bytes = (changed.extended_bytes as usize).saturating_sub(name.len() + old.len());
                self.extended_changed(t, id, &mut changed, bytes);
                Ok(())
            }),
        )
    }
}

/// Returns whether the change only sets or removes a directory's lot for new files.
fn changes_the_lot_alone(directory: &Inode, set: &SetAttributes) -> bool {
    let (Node::Directory { default_layout, .. }, Some(choice)) = (&directory.node, &set.default_layout) else { return false };
    let (old, new) = (default_layout.clone().unwrap_or_default(), choice.clone().unwrap_or_default());
    let rest = SetAttributes { default_layout: None, ..set.clone() };
    old.lot != new.lot && LayoutChoice { lot: new.lot, ..old } == new && rest == SetAttributes::default()
}

fn file_layout(inode: &Inode) -> Result<&FileLayout> {
    match &inode.node {
        Node::File(layout) => Ok(layout),
        Node::Directory { .. } => Err(is_directory()),
        _ => Err(Error::new(ErrorKind::Invalid, "it is not a regular file")),
    }
}

fn extended<V: View + ?Sized>(view: &V, id: FileId, name: &[u8]) -> Result<Option<Vec<u8>>> {
    let key = extended_key(id, name);
    view.get(Table::Extended, &key)?.map(|value| decode(Table::Extended, &key, &value)).transpose()
}

fn no_attribute(name: &[u8]) -> Error {
    Error::new(ErrorKind::NoAttribute, format!("there is no extended attribute `{}`", thalweg_wire::protocol::names::shown(name)))
}

fn check_extended_name(name: &[u8]) -> Result<()> {
    if name.is_empty() || name.contains(&0) {
        return Err(Error::new(ErrorKind::Invalid, "an extended attribute's name must not be empty or contain a zero byte"));
    }
    if name.len() > limits::NAME_BYTES {
        return Err(Error::new(
            ErrorKind::NameTooLong,
            format!("an extended attribute's name of {} bytes: expected at most {}", name.len(), limits::NAME_BYTES),
        ));
    }
    Ok(())
}
