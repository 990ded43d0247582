//! Requests about names.

use super::answers::Entry;
use super::requests::{Path, Removed};
use super::served::Served;
use crate::names::{join, last, text};
use serde_json::{Value, json};
use thalweg_client::FileHandle;
use thalweg_client::remove::Remover;
use thalweg_client::walk::{Detail, TreeOptions, Visit, WalkEntry, WalkOptions, Walker};
use thalweg_trace::{TraceHandle, Tracer};
use thalweg_wire::protocol::metadata::{Attributes, FileKind, FilePath, SetAttributes, SetTime};
use thalweg_wire::{Error, ErrorKind};

/// Entries of a page.
const PAGE: usize = 1024;

impl Served {
    /// Returns the attributes of a path, without following a link at its end.
    fn attributes(&self, path: &[u8]) -> Result<Attributes, Error> {
        let mut found = self.session.names().stat_many(&mut Tracer::off(), &[FilePath::at(path)], true)?;
        found.pop().unwrap_or_else(|| Err(Error::new(ErrorKind::Protocol, "an empty answer"))).map_err(|e| e.on_file(text(path)))
    }

    /// Returns what a path is, with links followed. A link that leads nowhere, or out of the store, is itself.
    fn entry(&self, path: &[u8]) -> Result<Value, Error> {
        let follow = || self.session.names().follow(&mut Tracer::off(), path);
        let (attributes, link) = match self.attributes(path) {
            Ok(of_link) if of_link.kind == FileKind::Symlink => {
                let target = of_link
                    .target
                    .clone()
                    .map_or_else(|| self.session.names().read_symlink(&mut Tracer::off(), &FilePath::of(of_link.id)), Ok)?;
                let followed = match follow() {
                    Ok((_, attributes)) => attributes,
                    Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::Unsupported | ErrorKind::LinkLoop) => of_link,
                    Err(e) => return Err(e),
                };
                (followed, Some(target))
            }
            // A link on the way.
            Err(error) if error.kind() == ErrorKind::NotDirectory => (follow()?.1, None),
            other => (other?, None),
        };
        let size = (attributes.kind == FileKind::File).then(|| self.size(path, &attributes)).transpose()?;
        Ok(Entry { name: path, attributes: &attributes, size: size.map(Ok), link: link.as_deref() }.answer())
    }

    fn size(&self, path: &[u8], attributes: &Attributes) -> Result<u64, Error> {
        match attributes.size_bytes {
            Some(size) => Ok(size),
            None => self.session.data().size(&mut Tracer::off(), &FileHandle::from_attributes(text(path), attributes)?),
        }
    }

    fn walker(&self, detail: Detail) -> Walker {
        self.session.walker(WalkOptions { detail, timeout: Some(self.flags.timeout), ..WalkOptions::default() })
    }

    /// Makes the directory of a path, and those above it.
    pub(super) fn make_parents(&self, path: &[u8]) -> Result<(), Error> {
        let name = last(path);
        let above = path.iter().rposition(|byte| *byte != b'/').map_or(0, |end| end + 1 - name.len());
        match path[..above].iter().rposition(|byte| *byte != b'/') {
            Some(end) => self.make(&path[..=end], true),
            None => Ok(()),
        }
    }

    fn make(&self, path: &[u8], parents: bool) -> Result<(), Error> {
        let mut made = self.session.make_directories(&[FilePath::at(path)], parents);
        made.pop().unwrap_or(Ok(())).map_err(|e| e.on_file_instead(text(path)))
    }
}

/// Returns one file or directory.
pub(super) fn stat(served: &Served, path: &Path) -> Result<Value, Error> {
    Ok(json!({ "entry": served.entry(&path.bytes()?)? }))
}

/// Lists a directory, down to `depth`; full pages go to `page`, and the last one is returned.
pub(super) fn list(served: &Served, path: &Path, depth: u32, page: &mut dyn FnMut(&[Value])) -> Result<Value, Error> {
    let path = path.bytes()?;
    match listed(served, &path, &FilePath::at(&path), depth, page) {
        // A link to a directory, or one on the way.
        Err(error) if error.kind() == ErrorKind::NotDirectory => {
            let (_, attributes) = served.session.names().follow(&mut Tracer::off(), &path)?;
            if attributes.kind != FileKind::Directory {
                return Err(Error::new(ErrorKind::NotDirectory, "not a directory").on_file(text(&path)));
            }
            listed(served, &path, &FilePath::of(attributes.id), depth, page)
        }
        done => done,
    }
}

fn listed(served: &Served, path: &[u8], place: &FilePath, depth: u32, page: &mut dyn FnMut(&[Value])) -> Result<Value, Error> {
    let tracer = &mut Tracer::off();
    let mut entries = Vec::new();
    let mut add = |name: &[u8], entry: &WalkEntry| -> Result<(), Error> {
        entries.extend(listed_entry(served, path, name, entry)?);
        if entries.len() >= PAGE {
            page(&entries);
            entries.clear();
        }
        Ok(())
    };
    if depth <= 1 {
        let mut walk = served.walker(Detail::Sizes).directory(place);
        while let Some(entry) = walk.next(tracer) {
            let entry = entry.map_err(|e| e.on_file_instead(text(path)))?;
            add(&entry.name, &entry)?;
        }
    } else {
        let mut tree = served.walker(Detail::Sizes).tree(place, TreeOptions { depth_most: depth, ..TreeOptions::default() });
        while let Some(next) = tree.next(tracer) {
            let next = next.map_err(|e| e.on_file_instead(text(path)))?;
            match next.visit {
                Visit::Found => add(&next.path, &next.entry)?,
                // Removed meanwhile.
                Visit::Unreadable(error) if error.is_gone() => {}
                Visit::Unreadable(error) => return Err(error.on_file_instead(text(&join(path, &next.path)))),
                Visit::Left => {}
            }
        }
    }
    Ok(json!({ "entries": entries }))
}

/// Returns a listed entry. A link to a file is that file; a link to a directory stays a link, so that no walk of a client's goes in circles.
fn listed_entry(served: &Served, directory: &[u8], name: &[u8], entry: &WalkEntry) -> Result<Option<Value>, Error> {
    if entry.kind == FileKind::Symlink {
        let mut followed = match served.entry(&join(directory, name)) {
            Ok(followed) => followed,
            Err(error) if error.is_gone() => return Ok(None),
            Err(error) => return Err(error),
        };
        followed["name"] = json!(Path::of(name));
        if followed["type"] == "directory" {
            followed["type"] = json!(crate::listing::kind_text(FileKind::Symlink));
        }
        return Ok(Some(followed));
    }
    let Some(attributes) = &entry.attributes else { return Err(Error::new(ErrorKind::Protocol, "an entry without attributes")) };
    let size = entry.size.clone().map(|size| size.map(|size| size.size_bytes));
    Ok(Some(Entry { name, attributes, size, link: None }.answer()))
}

/// Makes a directory.
pub(super) fn make_directory(served: &Served, path: &Path, parents: bool, exists: bool) -> Result<Value, Error> {
    let path = path.bytes()?;
    let made = match served.make(&path, parents && exists) {
        Err(error) if error.kind() == ErrorKind::NotFound && parents => served.make_parents(&path).and_then(|()| served.make(&path, false)),
        made => made,
    };
    match made {
        Err(error) if error.kind() == ErrorKind::Exists && exists => match served.attributes(&path)?.kind {
            FileKind::Directory => Ok(json!({})),
            _ => Err(error),
        },
        made => made.map(|()| json!({})),
    }
}

/// Removes a name.
pub(super) fn remove(served: &Served, path: &Path, what: Removed) -> Result<Value, Error> {
    let path = path.bytes()?;
    let place = FilePath::at(&path);
    let (names, tracer) = (served.session.names(), &mut Tracer::off());
    if last(&path).is_empty() {
        return Err(Error::new(ErrorKind::NotPermitted, "is the root of the store, which is not removed").on_file(text(&path)));
    }
    let removed = match what {
        Removed::File => names.unlink(tracer, &place),
        Removed::Directory => names.remove_directory(tracer, &place),
        Removed::Tree => remove_tree(served, &path),
    };
    removed.map(|()| json!({})).map_err(|e| e.on_file(text(&path)))
}

fn remove_tree(served: &Served, path: &[u8]) -> Result<(), Error> {
    let known = served.attributes(path)?;
    let (mut first, mut count) = (None, 0_u64);
    let mut refused = |path: &[u8], error: &Error| {
        count += 1;
        first.get_or_insert_with(|| error.clone().on_file_instead(text(path)));
    };
    let mut remover = Remover::new(served.session.names().clone(), &TraceHandle::off(), false);
    remover.remove_path(&mut Tracer::off(), &served.walker(Detail::Names), path, &known, &mut refused);
    remover.finish(&mut refused);
    match first {
        None => Ok(()),
        Some(error) if count == 1 => Err(error),
        Some(error) => {
            let problem = format!("{} (and {} more names below the directory could not be removed)", error.message(), count - 1);
            let file = error.file().map(str::to_owned).unwrap_or_else(|| text(path));
            Err(Error::new(error.kind(), problem).on_file(file))
        }
    }
}

/// Renames a file or directory.
pub(super) fn rename(served: &Served, from: &Path, to: &Path, replace: bool) -> Result<Value, Error> {
    let (from, to) = (from.bytes()?, to.bytes()?);
    let (of, into) = (FilePath::at(&from), FilePath::at(&to));
    let renamed = served.session.names().rename(&mut Tracer::off(), &of, &into, replace, &SetAttributes::default());
    renamed.map(|_| json!({})).map_err(|e| e.on_file(text(&from)))
}

/// Sets the time of the last change to now.
pub(super) fn touch(served: &Served, path: &Path) -> Result<Value, Error> {
    let path = path.bytes()?;
    let set = SetAttributes { modified: Some(SetTime::Now), ..SetAttributes::default() };
    let touched = served.session.names().set_attributes(&mut Tracer::off(), &FilePath::at(&path), &set);
    touched.map(|_| json!({})).map_err(|e| e.on_file(text(&path)))
}
