//! Attributes and directory pages, with sizes that can be proved ([`crate::sizes`]).
//!
//! Rows are read first; then the I/O servers of the sizes found are queried in parallel for their machine starts. So the proof is of a time
//! after the request, whatever the age of the rows.

use super::MetadataService;
use crate::background::settler::servers_of;
use crate::database::{Stage, Watch};
use crate::namespace::Claim;
use crate::namespace::many::Outcomes;
use crate::namespace::tree::attributes_cost;
use crate::sizes::boots::{KnownStarts, Standing};
use thalweg_wire::limits;
use thalweg_wire::protocol::metadata::{Attributes, Detail, DirectoryEntry, FileId, FilePath, Lengths, Refusal, SmallReply};
use thalweg_wire::protocol::page::Distinct;
use thalweg_wire::{Error, ErrorKind, Result};

/// Bound: places in a request for attributes.
const STAT_PLACES: usize = 1024;
/// Bound: bytes of attributes in a reply, well below a message's body.
const STAT_BYTES: usize = 512 << 10;

impl MetadataService {
    /// Returns a page of a directory.
    pub(crate) fn list(
        &self,
        watch: &mut dyn Watch,
        place: &FilePath,
        after: Option<&[u8]>,
        most: u32,
        detail: Detail,
    ) -> Result<(Vec<DirectoryEntry>, bool)> {
        let mut claims = Vec::new();
        let (mut entries, more) = self.namespace.list_claiming(watch, place, after, (most, detail), &mut claims)?;
        let attributes = entries.iter_mut().filter_map(|entry| entry.attributes.as_mut());
        self.prove(watch, attributes.zip(claims).collect());
        Ok((entries, more))
    }

    /// Returns the attributes of each place, as many as fit in a message.
    pub(crate) fn stat_many(&self, watch: &mut dyn Watch, places: &[FilePath], sizes: bool) -> Result<Vec<Result<Attributes, Refusal>>> {
        if places.is_empty() || places.len() > STAT_PLACES {
            return Err(Error::new(ErrorKind::Invalid, format!("attributes of {} places: expected 1 to {STAT_PLACES}", places.len())));
        }
        let map = self.namespace.map();
        let known_starts = self.namespace.boots.known_starts(&map);
        let (mut found, mut claims, mut bytes) = (Vec::with_capacity(places.len()), Vec::new(), 0);
        for place in places {
            let one = self.namespace.stat_claiming(place).map_err(|e| Refusal { errno: e.kind().errno(), message: e.to_string() });
            let one = one.map(|(mut attributes, claim)| {
                fill_in(&known_starts, &mut attributes, &claim, |_| true);
                claims.push(claim);
                attributes
            });
            bytes += match &one {
                Ok(attributes) => attributes_cost(attributes),
                Err(refusal) => refusal.message.len().min(limits::ERROR_TEXT_BYTES) + 16,
            };
            found.push(one);
            if bytes >= STAT_BYTES {
                break;
            }
        }
        if sizes {
            let attributes = found.iter_mut().filter_map(|one| one.as_mut().ok());
            self.prove(watch, attributes.zip(claims).collect());
        }
        Ok(found)
    }

    /// Returns the attributes of a file being opened, with the current knowledge of its datafiles.
    pub(super) fn stat_to_open(&self, place: &FilePath) -> Result<Attributes> {
        let (mut attributes, claim) = self.namespace.stat_claiming(place)?;
        let map = self.namespace.map();
        if let (Claim::Settled(settlement), Some(layout)) = (&claim, &attributes.layout) {
            let database = &**self.namespace.database();
            let settled = self.namespace.boots.ask_again(database, &map, &*self.servers, (settlement, &layout.targets));
            attributes.settled = Some(settled);
        }
        Ok(attributes)
    }

    /// Returns whether a sync of a file has covered all its earlier unsynced writes, by the machine starts of its servers.
    pub(super) fn was_all_synced(&self, id: FileId) -> bool {
        let (namespace, map) = (&self.namespace, self.namespace.map());
        let Some(before) = namespace.writers.base(id).filter(|before| before.unsynced.is_some()) else { return true };
        let Ok(Some(layout)) = namespace.stat(&FilePath::of(id)).map(|found| found.layout) else { return false };
        if namespace.boots.known_starts(&map).standing(&before, &layout.targets) != Standing::Pending {
            return true;
        }
        let servers = servers_of(&map, std::iter::once(&*layout));
        let proof = namespace.boots.ask(&**namespace.database(), &map, &*self.servers, &servers);
        proof.since(&layout.targets) <= before.boots
    }

    /// Proves sizes requested among many operations.
    pub(super) fn prove_outcomes(&self, watch: &mut dyn Watch, outcomes: &mut Outcomes) {
        let mut claims = std::mem::take(&mut outcomes.claims).into_iter().peekable();
        let mut claimed = Vec::new();
        for (n, outcome) in outcomes.each.iter_mut().enumerate() {
            if let (Some((_, claim)), Ok(SmallReply::Attributes(attributes))) = (claims.next_if(|(of, _)| *of == n), outcome) {
                claimed.push((attributes, claim));
            }
        }
        self.prove(watch, claimed);
    }

    /// Fills in sizes that are proved; unproved ones of files without writers are queued for settlement.
    fn prove(&self, watch: &mut dyn Watch, claimed: Vec<(&mut Attributes, Claim)>) {
        if claimed.is_empty() {
            return;
        }
        let map = self.namespace.map();
        let has_bytes = |(_, claim): &&(&mut Attributes, Claim)| matches!(claim, Claim::Settled(settlement) if settlement.size_bytes > 0);
        let mut layouts = Distinct::default();
        let with_bytes = claimed.iter().filter(has_bytes).filter_map(|(attributes, _)| attributes.layout.as_ref());
        with_bytes.for_each(|layout| _ = layouts.place(layout));
        let servers = servers_of(&map, layouts.all().iter().map(|layout| &**layout));
        let proof = if servers.is_empty() {
            std::sync::Arc::new(self.namespace.boots.unasked(&map))
        } else {
            watch.begin();
            let proof = self.namespace.boots.ask(&**self.namespace.database(), &map, &*self.servers, &servers);
            watch.end(Stage::Wait(None));
            proof
        };
        let since: Vec<u32> = layouts.all().iter().map(|layout| proof.since(&layout.targets)).collect();
        let known_starts = self.namespace.boots.known_starts(&map);
        let mut doubtful: Vec<FileId> = Vec::new();
        for (attributes, claim) in claimed {
            let layout = attributes.layout.as_ref();
            let mut since = || layout.map_or(u32::MAX, |layout| since[layouts.place(layout) as usize]);
            match &claim {
                Claim::Settled(settled) => {
                    if proof.remembers(settled.boots) && (settled.size_bytes == 0 || since() <= settled.boots) {
                        attributes.size_bytes = Some(settled.size_bytes);
                    }
                    if proof.remembers(settled.boots) && (attributes.size_bytes.is_none() || settled.lengths == Lengths::Unknown) {
                        doubtful.push(attributes.id);
                    }
                }
                Claim::Unknown => doubtful.push(attributes.id),
                Claim::None => {}
            }
            // The servers' fresh answers are valid.
            fill_in(&known_starts, attributes, &claim, |place| proof.has_said(place));
        }
        if !doubtful.is_empty() {
            self.settler.enqueue(doubtful);
        }
    }
}

/// Fills in the knowledge of a file's datafiles from its row.
fn fill_in(known_starts: &KnownStarts<'_>, attributes: &mut Attributes, claim: &Claim, has_said: impl Fn(usize) -> bool) {
    if let (Claim::Settled(settlement), Some(layout)) = (claim, &attributes.layout) {
        attributes.settled = Some(known_starts.settled(settlement, &layout.targets, has_said));
    }
}
