//! Other users of the device, the processors or the link that the run waited for, and limits set there.

use crate::cause::Cause;
use crate::facts::Parts;
use crate::facts::links::Shared;
use crate::facts::neighbours::Neighbours;
use crate::facts::sharing::Sharing;
use crate::limits::assemble as limits;
use crate::path::ledger::Entry;
use crate::waits::place::{Place, What};
use thalweg_trace::ObjectKind;

impl Parts<'_> {
    /// The limit on the disk or memory that was waited for.
    pub(crate) fn limit(&self, entry: &Entry) -> Option<String> {
        let Place::Thread { what: What::Blocked(_), object, .. } = entry.place else { return None };
        let set = &self.around.limits;
        let on = self.tables.objects.get(object as usize);
        let device = on.and_then(|on| if on.kind == ObjectKind::Device { Some(on.name.as_str()) } else { on.attribute("device") });
        let reads = matches!(entry.cause, Cause::ClientRead | Cause::ServerRead | Cause::ClientMemory | Cause::ServerMemory);
        device.and_then(|device| set.of_disk(device)).or_else(|| set.of_memory().filter(|_| reads))
    }

    /// Others' use of the device that was waited for, if it was a fair part and no limit was reached.
    pub(crate) fn others_at(&self, entry: &Entry) -> Option<&Sharing> {
        let sharing = self.sharing.of_entry(self.tables, entry).filter(|sharing| sharing.is_worth_saying())?;
        self.limit(entry).is_none().then_some(sharing)
    }

    /// The program with more than half of the awaited device's service, if the sentence does not name it, and its part.
    pub(crate) fn most_at_device(&self, entry: &Entry) -> Option<(&str, f64)> {
        if self.others_at(entry).is_some() {
            return None;
        }
        self.sharing.of_entry(self.tables, entry)?.most_of_another()
    }

    /// Other programs with a fair part of the processors that were queued for.
    pub(crate) fn others_at_processors(&self, entry: &Entry) -> Option<Neighbours> {
        if !matches!(entry.place, Place::Thread { what: What::Runnable, .. }) || entry.place.is_quota(self.tables) {
            return None;
        }
        let same = self.ledger.entries.iter().filter(|other| (other.cause, other.place) == (entry.cause, entry.place));
        Some(Neighbours::at_processors(self.tables, self.ledger, same)).filter(Neighbours::is_worth_saying)
    }

    /// Other programs with a fair part of the traffic on the link that bytes were on.
    pub(crate) fn others_at_link(&self, entry: &Entry) -> Option<Shared> {
        self.link_of(entry).filter(|shared| shared.neighbours.is_worth_saying())
    }

    /// The link that bytes were on, with its other users.
    pub(crate) fn link_of(&self, entry: &Entry) -> Option<Shared> {
        // What an unrecorded server waited for is unknown: the link may be it if data came.
        let least_bytes = match entry.cause {
            Cause::NetworkBandwidth | Cause::NetworkLoss => 0,
            Cause::ServerUnknown => limits::LINK_BYTES,
            _ => return None,
        };
        self.around.links.at(self.tables, self.seen, entry.place).filter(|shared| shared.own_bytes >= least_bytes)
    }
}
