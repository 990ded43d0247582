//! Rows of the smaller tables.

use super::Check;
use crate::credentials::{REVISION, decode_row};
use crate::database::Table;
use crate::given_up::{GIVEN_UP, GivenUp};
use crate::inode::{Intent, decode, id_of};
use crate::lineage::{LINEAGE, Lineage};
use crate::lots;
use crate::namespace::{EPOCH, START, STORE, draft_rows};
use thalweg_wire::Result;
use thalweg_wire::protocol::lots::LotState;
use thalweg_wire::protocol::metadata::{FileId, FileKind};

/// Rows of [`Table::State`] that are numbers, with their lengths.
const NUMBERS: [(&[u8], usize); 5] = [(STORE, 8), (EPOCH, 8), (START, 8), (lots::COUNTER, 4), (REVISION, 8)];
/// Of the key of an answer: client, line, run.
const ANSWER_KEY_BYTES: usize = 10;

impl Check {
    pub(super) fn state(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if let Some((_, bytes)) = NUMBERS.iter().find(|(name, _)| *name == key)
            && value.len() != *bytes
        {
            self.find(Table::State, key, format!("it is a number of {} bytes, and {bytes} were expected", value.len()));
            return Ok(());
        }
        let number = || value.try_into().map(u64::from_le_bytes).ok();
        match key {
            STORE => self.checked.store = number(),
            EPOCH => self.epoch = number(),
            LINEAGE => drop(decode::<Lineage>(Table::State, key, value)?),
            GIVEN_UP => drop(GivenUp::decode(value)?),
            lots::COUNTER => self.lots_counter = value.try_into().map_or(0, u32::from_le_bytes),
            _ => {}
        }
        Ok(())
    }

    pub(super) fn intent(&mut self, id: FileId, intent: &Intent) {
        let targets = match intent {
            Intent::Remove { targets, .. } => targets,
            Intent::Truncate { layout, .. } => &layout.targets,
        };
        self.use_targets(targets, id);
        match (self.inodes.get_mut(&id), intent) {
            (Some(inode), _) => inode.has_intent = true,
            // (A removal by an early release has deleted the inode already.)
            (None, Intent::Remove { .. }) => {}
            (None, Intent::Truncate { .. }) => self.find_at(Table::Intents, id, "it is to truncate a file that has no inode"),
        }
    }

    /// Takes a row of the tables that come after the names.
    pub(super) fn other(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        match table {
            Table::Targets => match <[u8; 4]>::try_from(key) {
                Ok(number) => drop(self.targets.insert(u32::from_be_bytes(number), decode(table, key, value)?)),
                Err(_) => self.find(table, key, "its key is no number"),
            },
            Table::Drafts => {
                let row: draft_rows::Row = decode(table, key, value)?;
                let is_file = id_of(key).and_then(|id| self.inodes.get(&id)).is_some_and(|inode| inode.kind == FileKind::File);
                if !is_file {
                    self.find(table, key, "it is a draft without a file");
                } else if self.inodes.get(&row.parent).is_none_or(|parent| parent.kind != FileKind::Directory) {
                    self.find(table, key, format!("it is a draft in directory {}, which does not exist", row.parent));
                }
            }
            Table::Lots => self.lot(key, decode(table, key, value)?),
            Table::Credentials => {
                let entry = decode_row(key, value)?;
                if entry.identity.id.0 != key {
                    self.find(table, key, format!("it is of credential {}", entry.identity.id));
                }
            }
            _ => {
                let _: (u64, Vec<u8>) = decode(table, key, value)?;
                if key.len() != ANSWER_KEY_BYTES {
                    self.find(table, key, "its key is no client, line and run");
                }
            }
        }
        Ok(())
    }

    /// Checks a lot's account: its shares are on targets that exist, and add up to its size.
    fn lot(&mut self, key: &[u8], row: lots::Row) {
        let lot = row.lot;
        if key != lot.id.0.to_be_bytes() {
            self.find(Table::Lots, key, format!("it is of lot {}", lot.id));
        }
        if lot.id.0 > self.lots_counter {
            self.find(Table::Lots, key, format!("its number is above the last one given, {}", self.lots_counter));
        }
        let is_named = lot.state != LotState::Removing;
        if is_named && !self.lot_names.insert(lot.name.clone()) {
            self.find(Table::Lots, key, format!("there are two lots `{}`", lot.name));
        }
        for (target, _) in &lot.shares {
            if !self.targets.contains_key(&target.0) {
                self.find(Table::Lots, key, format!("it has a share on target {target}, which the store does not have"));
            }
        }
        let shares: u64 = lot.shares.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add);
        if lot.state == LotState::Active && shares < lot.size_bytes {
            self.find(Table::Lots, key, format!("its size is {} bytes, and its shares are {shares} in all", lot.size_bytes));
        }
        self.lots.insert(lot.id);
    }
}
