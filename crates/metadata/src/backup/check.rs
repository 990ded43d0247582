//! The check of a database: every row can be read, rows that refer to each other agree, and counts are those of what they count.
//!
//! It takes the rows in their order, from a running service, a stopped one's database, or a backup, and keeps some 60 bytes of each inode.

mod rows;

use crate::database::Table;
use crate::inode::{Entry, Inode, Node, decode, decode_inode, decode_intent, id_of};
use std::collections::{BTreeMap, HashMap, HashSet};
use thalweg_wire::Result;
use thalweg_wire::protocol::metadata::{FileId, FileKind, LotId, Name, TargetId};

/// Bound: findings that are kept; the others are counted.
const FINDINGS: usize = 1000;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The table.
    pub table: &'static str,
    /// The key of the row.
    pub key: String,
    /// The problem.
    pub problem: String,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// The store that the database belongs to.
    pub store: Option<u64>,
    /// Rows by table.
    pub rows: Vec<(&'static str, u64)>,
    /// What was found.
    pub findings: Vec<Finding>,
    /// Further findings.
    pub more: u64,
}

/// An inode, and what refers to it.
struct CountedInode {
    kind: FileKind,
    links: u32,
    /// The directory that a directory says it is in.
    parent: FileId,
    extended_bytes: u32,
    names: u32,
    subdirectories: u32,
    extended_found: u64,
    has_intent: bool,
}

/// A check under way.
#[derive(Default)]
pub struct Check {
    checked: Checked,
    counts: [u64; Table::ALL.len()],
    inodes: HashMap<FileId, CountedInode>,
    epoch: Option<u64>,
    lots_counter: u32,
    targets: BTreeMap<u32, String>,
    lots: HashSet<LotId>,
    lot_names: HashSet<String>,
    /// Targets and lots that rows refer to, each with the first such row.
    used_targets: BTreeMap<TargetId, FileId>,
    used_lots: BTreeMap<u32, FileId>,
}

fn shown(table: Table, key: &[u8]) -> String {
    match (table, id_of(key)) {
        (Table::Entries | Table::Extended, Some(id)) => format!("{id} `{}`", thalweg_wire::protocol::names::shown(&key[8..])),
        (Table::State, _) => String::from_utf8_lossy(key).into_owned(),
        (_, Some(id)) if key.len() == 8 => id.to_string(),
        _ => key.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

impl Check {
    /// Takes the next row.
    pub fn row(&mut self, table: Table, key: &[u8], value: &[u8]) {
        self.counts[table as usize] += 1;
        if let Err(error) = self.look(table, key, value) {
            self.find(table, key, error.message());
        }
    }

    fn find(&mut self, table: Table, key: &[u8], problem: impl Into<String>) {
        if self.checked.findings.len() == FINDINGS {
            self.checked.more += 1;
            return;
        }
        self.checked.findings.push(Finding { table: table.name(), key: shown(table, key), problem: problem.into() });
    }

    fn find_at(&mut self, table: Table, id: FileId, problem: impl Into<String>) {
        self.find(table, &id.0.to_be_bytes(), problem);
    }

    fn look(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        match table {
            Table::State => self.state(key, value)?,
            Table::Inodes => self.inode(key, decode_inode(key, value)?),
            Table::Entries => self.entry(key, decode(table, key, value)?),
            Table::Intents => match id_of(key).filter(|_| key.len() == 8) {
                Some(id) => self.intent(id, &decode_intent(key, value)?),
                None => self.find(table, key, "its key is no number"),
            },
            Table::Extended => self.extended(key, &decode::<Vec<u8>>(table, key, value)?),
            Table::Targets | Table::Drafts | Table::Lots | Table::Credentials | Table::Answers => self.other(table, key, value)?,
        }
        Ok(())
    }

    /// Notes targets that a row refers to.
    fn use_targets(&mut self, targets: &[TargetId], id: FileId) {
        for target in targets {
            self.used_targets.entry(*target).or_insert(id);
        }
    }

    fn inode(&mut self, key: &[u8], inode: Inode) {
        let Some(id) = id_of(key).filter(|_| key.len() == 8) else { return self.find(Table::Inodes, key, "its key is no number") };
        if self.epoch.is_some_and(|epoch| id.epoch() > epoch) {
            self.find(Table::Inodes, key, format!("its number is of start {}, which has not been", id.epoch()));
        }
        let (kind, mut parent) = (inode.kind(), FileId(0));
        if let Some(lot) = inode.lot() {
            self.used_lots.entry(lot.0).or_insert(id);
        }
        match &inode.node {
            Node::File(layout) => {
                self.use_targets(&layout.targets, id);
                if layout.targets.is_empty() {
                    self.find(Table::Inodes, key, "its layout has no datafiles");
                }
            }
            Node::Directory { parent: is_in, .. } => parent = *is_in,
            _ => {}
        }
        let seen = CountedInode {
            kind,
            links: inode.links,
            parent,
            extended_bytes: inode.extended_bytes,
            names: 0,
            subdirectories: 0,
            extended_found: 0,
            has_intent: false,
        };
        self.inodes.insert(id, seen);
    }

    fn entry(&mut self, key: &[u8], entry: Entry) {
        let (Some(parent), Some(name)) = (id_of(key), key.get(8..)) else {
            return self.find(Table::Entries, key, "its key is no directory's number and name");
        };
        if let Err(error) = Name::new(name) {
            self.find(Table::Entries, key, error.message());
        }
        match self.inodes.get_mut(&parent) {
            None => self.find(Table::Entries, key, format!("it is in directory {parent}, which has no inode")),
            Some(directory) if directory.kind != FileKind::Directory => {
                self.find(Table::Entries, key, format!("it is in {parent}, which is no directory"));
            }
            Some(directory) => directory.subdirectories += u32::from(entry.kind == FileKind::Directory),
        }
        let Some(named) = self.inodes.get_mut(&entry.id) else {
            return self.find(Table::Entries, key, format!("it names {}, which has no inode", entry.id));
        };
        named.names += 1;
        let (kind, is_in) = (named.kind, named.parent);
        if kind != entry.kind {
            self.find(Table::Entries, key, format!("it says that {} is a {:?}, and its inode that it is a {kind:?}", entry.id, entry.kind));
        } else if kind == FileKind::Directory && is_in != parent {
            self.find(Table::Entries, key, format!("directory {} says that it is in {is_in}", entry.id));
        }
    }

    fn extended(&mut self, key: &[u8], value: &[u8]) {
        let found = id_of(key).and_then(|id| self.inodes.get_mut(&id));
        match found {
            Some(inode) => inode.extended_found += (key.len() - 8 + value.len()) as u64,
            None => self.find(Table::Extended, key, "it is an attribute of a file that has no inode"),
        }
    }

    /// Ends the check: what refers to what is known now.
    pub fn finish(mut self) -> Checked {
        if self.checked.store.is_none() {
            self.find(Table::State, crate::namespace::STORE, "missing: it says which store this is");
        }
        if self.epoch.is_none() {
            self.find(Table::State, crate::namespace::EPOCH, "missing: it keeps numbers from being given twice");
        }
        if self.inodes.get(&FileId::ROOT).is_none_or(|root| root.kind != FileKind::Directory) {
            self.find_at(Table::Inodes, FileId::ROOT, "the root directory is missing");
        }
        self.count_links();
        self.reach();
        for (target, file) in std::mem::take(&mut self.used_targets) {
            if !self.targets.contains_key(&target.0) {
                self.find_at(Table::Inodes, file, format!("it has a datafile on target {target}, which the store does not have"));
            }
        }
        for (lot, file) in std::mem::take(&mut self.used_lots) {
            if !self.lots.contains(&LotId(lot)) {
                self.find_at(Table::Inodes, file, format!("it is in lot {lot}, which does not exist"));
            }
        }
        let targets = std::mem::take(&mut self.targets);
        if let Some((at, (number, _))) = (0_u32..).zip(&targets).find(|(at, (number, _))| at != *number) {
            self.find(Table::Targets, &number.to_be_bytes(), format!("target {at} is missing before it"));
        }
        self.checked.rows = Table::ALL.iter().map(|table| (table.name(), self.counts[*table as usize])).collect();
        self.checked
    }

    /// Compares link counts with names, and sums of attributes with attributes.
    fn count_links(&mut self) {
        let mut problems = Vec::new();
        for (id, known) in &self.inodes {
            let expected = match known.kind {
                FileKind::Directory => 2 + known.subdirectories,
                _ => known.names,
            };
            let is_root = *id == FileId::ROOT;
            if known.kind == FileKind::Directory && known.names != u32::from(!is_root) {
                problems.push((*id, format!("it is a directory with {} names", known.names)));
            } else if known.links != expected {
                problems.push((*id, format!("its link count is {}, and what was counted is {expected}", known.links)));
            } else if known.links == 0 && !known.has_intent {
                problems.push((*id, "it has no name, and no intent to remove it".to_owned()));
            }
            if u64::from(known.extended_bytes) != known.extended_found {
                let (says, found) = (known.extended_bytes, known.extended_found);
                problems.push((*id, format!("its extended attributes have {found} bytes, and it says {says}")));
            }
        }
        problems.sort();
        problems.into_iter().for_each(|(id, problem)| self.find_at(Table::Inodes, id, problem));
    }

    /// Finds directories that cannot be reached from the root although each has a name: they are in themselves.
    fn reach(&mut self) {
        let (mut reached, mut lost) = (HashSet::from([FileId::ROOT]), Vec::new());
        for (id, known) in self.inodes.iter().filter(|(_, known)| known.kind == FileKind::Directory && known.names > 0) {
            let (mut way, mut at, mut next) = (HashSet::new(), *id, Some(known.parent));
            while !reached.contains(&at) && way.insert(at) {
                let Some(parent) = next else { break };
                at = parent;
                next = self.inodes.get(&at).map(|parent| parent.parent);
            }
            if reached.contains(&at) {
                reached.extend(way);
            } else if next.is_some() {
                lost.push(*id);
            }
        }
        lost.sort();
        lost.into_iter().for_each(|id| self.find_at(Table::Inodes, id, "it is a directory that is in itself"));
    }
}
