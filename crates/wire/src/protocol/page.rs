//! Pages of a directory: the request, and the encoding, which sends each layout once.
//!
//! The files of a directory mostly share a few layouts, and a layout is several times as long as the rest of an entry. A page
//! therefore begins with a table of its layouts, to which entries refer by index; the receiver shares them in memory too. Names
//! are sent as single byte strings.

use super::checked;
use super::files::{Attributes, DirectoryEntry, FileKind, FileLayout, LayoutChoice};
use super::lost::Lost;
use super::names::Name;
use super::numbers::FileId;
use super::settled::{Lengths, Settled};
use serde::de::{self, DeserializeSeed, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Where a page of a directory begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum After {
    /// At the first name.
    Nothing,
    /// After this name, whether it exists or not.
    Name(Vec<u8>),
    /// After the last name of the preceding page on this connection with the same walk number, so that a client can request the
    /// next page before that one arrives. Empty if that page was the last.
    Page,
}

impl After {
    /// Starts after this name, or at the first name.
    pub fn name(name: Option<&[u8]>) -> After {
        name.map_or(After::Nothing, |name| After::Name(name.to_vec()))
    }
}

/// How much to return of each entry. Each level includes the ones before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Detail {
    /// Names, numbers and kinds.
    Names,
    /// Attributes too.
    Attributes,
    /// Attributes, with sizes where the service can prove them.
    #[default]
    Sizes,
}

/// Serialises as one byte string.
struct Raw<'a>(&'a [u8]);

impl Serialize for Raw<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(self.0)
    }
}

/// Distinct layouts in order of appearance. Files of a page share layouts, and consecutive files mostly the same one.
#[derive(Default)]
pub struct Distinct {
    all: Vec<Arc<FileLayout>>,
    places: HashMap<*const FileLayout, u32>,
    last: Option<(*const FileLayout, u32)>,
}

impl Distinct {
    /// Returns the index of a layout, adding it if it is new.
    pub fn place(&mut self, layout: &Arc<FileLayout>) -> u32 {
        let pointer = Arc::as_ptr(layout);
        if let Some((_, place)) = self.last.filter(|(last, _)| *last == pointer) {
            return place;
        }
        let place = *self.places.entry(pointer).or_insert_with(|| {
            self.all.push(Arc::clone(layout));
            self.all.len() as u32 - 1
        });
        self.last = Some((pointer, place));
        place
    }

    /// Returns all layouts, in order of index.
    pub fn all(&self) -> &[Arc<FileLayout>] {
        &self.all
    }
}

#[derive(Serialize)]
struct PageOut<'a> {
    layouts: Vec<&'a FileLayout>,
    rows: RowsOut<'a>,
}

/// Entries with the indices of their layouts.
struct RowsOut<'a>(&'a [DirectoryEntry], &'a [Option<u32>]);

impl Serialize for RowsOut<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.0.iter().zip(self.1).map(|(entry, layout)| RowOut {
            name: &entry.name,
            id: entry.id,
            kind: entry.kind,
            attributes: entry.attributes.as_ref().map(|of| SlimOut {
                plain: Plain::of(of, *layout),
                target: of.target.as_deref().map(Raw),
                default_layout: &of.default_layout,
                lost: &of.lost,
            }),
        }))
    }
}

#[derive(Serialize)]
struct RowOut<'a> {
    name: &'a Name,
    id: FileId,
    kind: FileKind,
    attributes: Option<SlimOut<'a>>,
}

/// Attributes without the entry's own fields.
#[derive(Serialize)]
struct SlimOut<'a> {
    plain: Plain,
    target: Option<Raw<'a>>,
    default_layout: &'a Option<LayoutChoice>,
    lost: &'a Option<Box<Lost>>,
}

/// The numbers of an entry, as varints. A file's times are mostly close together, so they are sent relative to its creation
/// (modulo 2^64).
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Plain {
    mode: u32,
    uid: u32,
    gid: u32,
    links: u32,
    created_ns: i64,
    accessed_after_ns: i64,
    modified_after_ns: i64,
    /// Relative to the modification.
    changed_after_ns: i64,
    change: u64,
    device: u32,
    target_bytes: u64,
    extended_bytes: u32,
    #[serde(deserialize_with = "checked::known_size")]
    size_bytes: Option<u64>,
    settled: Brief,
    /// Index in the table of layouts.
    layout: Option<u32>,
}

/// [`Settled`] in one byte for the usual case. `Lengths::AtLeast` is not sent.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum Brief {
    Nothing,
    /// As in a file without holes, of the size sent.
    Whole,
    Other {
        #[serde(deserialize_with = "checked::bounded_size")]
        size_bytes: u64,
        is_whole: bool,
        is_exact: bool,
        doubtful: Option<u32>,
    },
}

impl Brief {
    fn of(of: &Attributes) -> Brief {
        match &of.settled {
            None => Brief::Nothing,
            Some(Settled { size_bytes, lengths: Lengths::Whole, is_exact: true, doubtful: None }) if of.size_bytes == Some(*size_bytes) => {
                Brief::Whole
            }
            Some(Settled { size_bytes, lengths, is_exact, doubtful }) => {
                Brief::Other { size_bytes: *size_bytes, is_whole: *lengths == Lengths::Whole, is_exact: *is_exact, doubtful: *doubtful }
            }
        }
    }

    fn settled(self, size_bytes: Option<u64>) -> Option<Settled> {
        match self {
            Brief::Nothing => None,
            Brief::Whole => Some(Settled { size_bytes: size_bytes?, lengths: Lengths::Whole, is_exact: true, doubtful: None }),
            Brief::Other { size_bytes, is_whole, is_exact, doubtful } => {
                let lengths = if is_whole { Lengths::Whole } else { Lengths::Unknown };
                Some(Settled { size_bytes, lengths, is_exact, doubtful })
            }
        }
    }
}

impl Plain {
    fn of(of: &Attributes, layout: Option<u32>) -> Plain {
        Plain {
            mode: of.mode,
            uid: of.uid,
            gid: of.gid,
            links: of.links,
            created_ns: of.created_ns,
            accessed_after_ns: of.accessed_ns.wrapping_sub(of.created_ns),
            modified_after_ns: of.modified_ns.wrapping_sub(of.created_ns),
            changed_after_ns: of.changed_ns.wrapping_sub(of.modified_ns),
            change: of.change,
            device: of.device,
            target_bytes: of.target_bytes,
            extended_bytes: of.extended_bytes,
            size_bytes: of.size_bytes,
            settled: Brief::of(of),
            layout,
        }
    }
}

#[derive(Deserialize)]
struct RowIn<'a> {
    name: Name,
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
    lost: Option<Box<Lost>>,
}

impl RowIn<'_> {
    /// Builds the entry with its layout from the page's table; `None`: the index is out of range.
    fn entry(self, layouts: &[Arc<FileLayout>]) -> Option<DirectoryEntry> {
        let RowIn { name, id, kind, attributes } = self;
        let attributes = match attributes {
            None => None,
            Some(SlimIn { plain, target, default_layout, lost }) => {
                let modified_ns = plain.created_ns.wrapping_add(plain.modified_after_ns);
                Some(Attributes {
                    id,
                    kind,
                    mode: plain.mode,
                    uid: plain.uid,
                    gid: plain.gid,
                    links: plain.links,
                    accessed_ns: plain.created_ns.wrapping_add(plain.accessed_after_ns),
                    modified_ns,
                    changed_ns: modified_ns.wrapping_add(plain.changed_after_ns),
                    created_ns: plain.created_ns,
                    change: plain.change,
                    device: plain.device,
                    target_bytes: plain.target_bytes,
                    extended_bytes: plain.extended_bytes,
                    target: target.map(<[u8]>::to_vec),
                    size_bytes: plain.size_bytes,
                    settled: plain.settled.settled(plain.size_bytes),
                    lost,
                    layout: match plain.layout {
                        Some(place) => Some(Arc::clone(layouts.get(place as usize)?)),
                        None => None,
                    },
                    default_layout,
                })
            }
        };
        Some(DirectoryEntry { name, id, kind, attributes })
    }
}

/// Decodes rows into entries one by one.
struct RowsIn<'l>(&'l [Arc<FileLayout>]);

impl<'de> DeserializeSeed<'de> for RowsIn<'_> {
    type Value = Vec<DirectoryEntry>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for RowsIn<'_> {
    type Value = Vec<DirectoryEntry>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("rows of a page")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<Self::Value, A::Error> {
        // A corrupt length must not allocate memory that is never filled.
        let mut entries = Vec::with_capacity(rows.size_hint().unwrap_or(0).min(4096));
        while let Some(row) = rows.next_element::<RowIn<'_>>()? {
            entries.push(row.entry(self.0).ok_or_else(|| checked::refuse("a page with an entry whose layout is not in its table"))?);
        }
        Ok(entries)
    }
}

struct PageIn;

impl<'de> Visitor<'de> for PageIn {
    type Value = Vec<DirectoryEntry>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a table of layouts, and rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut page: A) -> Result<Self::Value, A::Error> {
        let layouts: Vec<FileLayout> = page.next_element()?.ok_or_else(|| de::Error::invalid_length(0, &self))?;
        let layouts: Vec<Arc<FileLayout>> = layouts.into_iter().map(Arc::new).collect();
        page.next_element_seed(RowsIn(&layouts))?.ok_or_else(|| de::Error::invalid_length(1, &self))
    }
}

pub(crate) fn serialize<S: Serializer>(entries: &[DirectoryEntry], to: S) -> Result<S::Ok, S::Error> {
    let mut layouts = Distinct::default();
    let layout = |entry: &DirectoryEntry| entry.attributes.as_ref()?.layout.as_ref().map(|layout| layouts.place(layout));
    let places: Vec<Option<u32>> = entries.iter().map(layout).collect();
    PageOut { layouts: layouts.all().iter().map(|layout| &**layout).collect(), rows: RowsOut(entries, &places) }.serialize(to)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<DirectoryEntry>, D::Error> {
    from.deserialize_tuple(2, PageIn)
}

#[cfg(test)]
mod tests {
    use super::super::metadata::{LostRange, MetadataReply, TargetId};
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
            settled: match name.len() % 3 {
                0 => None,
                1 => Some(Settled { size_bytes: 1 << 40, lengths: Lengths::Whole, is_exact: true, doubtful: None }),
                _ => Some(Settled { size_bytes: 7, lengths: Lengths::Unknown, is_exact: false, doubtful: Some(3) }),
            },
            lost: (name.len() == 7).then(|| {
                let mut lost = Lost::default();
                lost.add(LostRange { index: 3, start: 5, end: 99 }, 1000);
                Box::new(lost)
            }),
            layout: layout.cloned(),
            default_layout: Some(LayoutChoice::default()),
        };
        DirectoryEntry { name: Name::new(name).unwrap(), id: attributes.id, kind: attributes.kind, attributes: Some(attributes) }
    }

    #[test]
    fn pages_come_back_as_they_were_and_share_layouts() {
        let layout = |n: u32| Arc::new(FileLayout { spec: Spec::new("simple_stripe"), targets: vec![TargetId(n); 32], lot: None });
        let (one, other) = (layout(1), layout(2));
        let mut entries: Vec<DirectoryEntry> =
            (1..100).map(|n| entry(&vec![b'x'; n], Some(if n % 3 == 0 { &other } else { &one }))).collect();
        entries.push(entry(b"none", None));
        entries.push(DirectoryEntry { name: Name::new([0xff, 1]).unwrap(), id: FileId(5), kind: FileKind::Directory, attributes: None });
        let page = MetadataReply::Page { entries: entries.clone(), more: true };
        let bytes = postcard::to_stdvec(&page).unwrap();
        assert!(bytes.len() < 99 * 50 + 99 * 80, "{} bytes", bytes.len());
        let MetadataReply::Page { entries: back, more: true } = postcard::from_bytes(&bytes).unwrap() else { panic!("a page") };
        assert_eq!(back, entries);
        let layouts: std::collections::HashSet<_> =
            back.iter().filter_map(|e| e.attributes.as_ref()?.layout.as_ref()).map(Arc::as_ptr).collect();
        assert_eq!(layouts.len(), 2);
        // Truncated pages are refused without a panic.
        for length in 0..bytes.len() {
            assert!(postcard::from_bytes::<MetadataReply>(&bytes[..length]).is_err());
        }
    }
}
