//! A page of a directory on the wire: layouts once, entries with the number of theirs.
//!
//! Files of a directory are mostly laid out in few ways, and a layout is several times as long as everything else that is told of a
//! file. So a page begins with a table of its layouts, and whoever receives it has each of them once in memory too. Names are told as
//! bytes in one piece.

use super::metadata::{Attributes, DirectoryEntry, FileId, FileKind, FileLayout, LayoutChoice};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes in one piece.
struct Raw<'a>(&'a [u8]);

impl Serialize for Raw<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(self.0)
    }
}

#[derive(Serialize)]
struct PageOut<'a> {
    layouts: Vec<&'a FileLayout>,
    rows: Vec<RowOut<'a>>,
}

#[derive(Serialize)]
struct RowOut<'a> {
    name: Raw<'a>,
    id: FileId,
    kind: FileKind,
    attributes: Option<SlimOut<'a>>,
}

/// Attributes without what the entry says already.
#[derive(Serialize)]
struct SlimOut<'a> {
    plain: Plain,
    target: Option<Raw<'a>>,
    default_layout: &'a Option<LayoutChoice>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Plain {
    mode: u32,
    uid: u32,
    gid: u32,
    links: u32,
    accessed_ns: i64,
    modified_ns: i64,
    changed_ns: i64,
    created_ns: i64,
    change: u64,
    device: u32,
    target_bytes: u64,
    extended_bytes: u32,
    size_bytes: Option<u64>,
    /// Place in the table of layouts.
    layout: Option<u32>,
}

#[derive(Deserialize)]
struct PageIn<'a> {
    layouts: Vec<FileLayout>,
    #[serde(borrow)]
    rows: Vec<RowIn<'a>>,
}

#[derive(Deserialize)]
struct RowIn<'a> {
    name: &'a [u8],
    id: FileId,
    kind: FileKind,
    #[serde(borrow)]
    attributes: Option<SlimIn<'a>>,
}

#[derive(Deserialize)]
struct SlimIn<'a> {
    plain: Plain,
    #[serde(borrow)]
    target: Option<&'a [u8]>,
    default_layout: Option<LayoutChoice>,
}

pub fn serialize<S: Serializer>(entries: &[DirectoryEntry], to: S) -> Result<S::Ok, S::Error> {
    let mut layouts: Vec<&FileLayout> = Vec::new();
    let mut places: HashMap<*const FileLayout, u32> = HashMap::new();
    let mut last: (*const FileLayout, u32) = (std::ptr::null(), 0);
    let mut place_of = |layout: &'_ Arc<FileLayout>| {
        let pointer = Arc::as_ptr(layout);
        if last.0 != pointer {
            let next = places.len() as u32;
            last = (pointer, *places.entry(pointer).or_insert(next));
        }
        last.1
    };
    let mut rows = Vec::with_capacity(entries.len());
    for entry in entries {
        let slim = |of: &'_ Attributes, layout: Option<u32>| Plain {
            mode: of.mode,
            uid: of.uid,
            gid: of.gid,
            links: of.links,
            accessed_ns: of.accessed_ns,
            modified_ns: of.modified_ns,
            changed_ns: of.changed_ns,
            created_ns: of.created_ns,
            change: of.change,
            device: of.device,
            target_bytes: of.target_bytes,
            extended_bytes: of.extended_bytes,
            size_bytes: of.size_bytes,
            layout,
        };
        let attributes = entry.attributes.as_ref().map(|of| {
            let place = of.layout.as_ref().map(&mut place_of);
            if let (Some(place), Some(layout)) = (place, &of.layout)
                && place as usize == layouts.len()
            {
                layouts.push(layout);
            }
            SlimOut { plain: slim(of, place), target: of.target.as_deref().map(Raw), default_layout: &of.default_layout }
        });
        rows.push(RowOut { name: Raw(&entry.name), id: entry.id, kind: entry.kind, attributes });
    }
    PageOut { layouts, rows }.serialize(to)
}

pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<DirectoryEntry>, D::Error> {
    let PageIn { layouts, rows } = PageIn::deserialize(from)?;
    let layouts: Vec<Arc<FileLayout>> = layouts.into_iter().map(Arc::new).collect();
    let layout_of = |place: Option<u32>| match place {
        None => Ok(None),
        Some(place) => match layouts.get(place as usize) {
            Some(layout) => Ok(Some(Arc::clone(layout))),
            None => Err(serde::de::Error::custom("a layout that is not in the page's table")),
        },
    };
    let mut entries = Vec::with_capacity(rows.len());
    for RowIn { name, id, kind, attributes } in rows {
        let attributes = match attributes {
            None => None,
            Some(SlimIn { plain, target, default_layout }) => Some(Attributes {
                id,
                kind,
                mode: plain.mode,
                uid: plain.uid,
                gid: plain.gid,
                links: plain.links,
                accessed_ns: plain.accessed_ns,
                modified_ns: plain.modified_ns,
                changed_ns: plain.changed_ns,
                created_ns: plain.created_ns,
                change: plain.change,
                device: plain.device,
                target_bytes: plain.target_bytes,
                extended_bytes: plain.extended_bytes,
                target: target.map(<[u8]>::to_vec),
                size_bytes: plain.size_bytes,
                layout: layout_of(plain.layout)?,
                default_layout,
            }),
        };
        entries.push(DirectoryEntry { name: name.to_vec(), id, kind, attributes });
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::super::metadata::{MetadataReply, TargetId};
    use super::*;
    use thalweg_layout::Spec;

    fn entry(name: &[u8], layout: Option<&Arc<FileLayout>>) -> DirectoryEntry {
        let attributes = Attributes {
            id: FileId(name.len() as u64),
            kind: FileKind::File,
            mode: 0o644,
            uid: 1,
            gid: u32::MAX,
            links: 1,
            accessed_ns: i64::MIN,
            modified_ns: -1,
            changed_ns: i64::MAX,
            created_ns: 0,
            change: u64::MAX,
            device: 7,
            target_bytes: 3,
            extended_bytes: 9,
            target: Some(b"a\xff/".to_vec()),
            size_bytes: Some(1 << 40),
            layout: layout.cloned(),
            default_layout: Some(LayoutChoice::default()),
        };
        DirectoryEntry { name: name.to_vec(), id: attributes.id, kind: attributes.kind, attributes: Some(attributes) }
    }

    #[test]
    fn pages_come_back_as_they_were_and_share_layouts() {
        let layout = |n: u32| Arc::new(FileLayout { spec: Spec::new("simple_stripe"), targets: vec![TargetId(n); 32] });
        let (one, other) = (layout(1), layout(2));
        let mut entries: Vec<DirectoryEntry> =
            (1..100).map(|n| entry(&vec![b'x'; n], Some(if n % 3 == 0 { &other } else { &one }))).collect();
        entries.push(entry(b"none", None));
        entries.push(DirectoryEntry { name: vec![0xff, 1], id: FileId(5), kind: FileKind::Directory, attributes: None });
        let page = MetadataReply::Page { entries: entries.clone(), more: true };
        let bytes = postcard::to_stdvec(&page).unwrap();
        assert!(bytes.len() < 99 * 50 + 99 * 80, "{} bytes", bytes.len());
        let MetadataReply::Page { entries: back, more: true } = postcard::from_bytes(&bytes).unwrap() else { panic!("a page") };
        assert_eq!(back, entries);
        let layouts: std::collections::HashSet<_> =
            back.iter().filter_map(|e| e.attributes.as_ref()?.layout.as_ref()).map(Arc::as_ptr).collect();
        assert_eq!(layouts.len(), 2);
        // Whatever is cut short is refused, and nothing panics.
        for length in 0..bytes.len() {
            assert!(postcard::from_bytes::<MetadataReply>(&bytes[..length]).is_err());
        }
    }
}
