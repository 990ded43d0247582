//! The credentials that were issued, and those that were revoked.
//!
//! Servers verify a credential without this list, since its secret is derived from the store's; the list is for people, and for revocation.
//! A revocation is first made durable here, then enforced by the servers of this process, then by the I/O servers: each has a request for
//! changes to witness pending ([`super::witnesses`]), which is answered when there is a new revocation.

use crate::database::{Database, Table, Unwatched, View, read, write};
use crate::inode::{decode, encode, number_at};
use crate::witnesses::Witnesses;
use std::sync::Arc;
use thalweg_base::sync::Mutex;
use thalweg_wire::limits;
use thalweg_wire::protocol::credentials::{CredentialBook, CredentialEntry, CredentialOperation, Revoked};
use thalweg_wire::trust::{CredentialId, Gate, Identity, Rights, check_name, now_s};
use thalweg_wire::{Error, ErrorKind, Result};

/// In [`Table::State`]: the number of revocations, u64 LE.
pub(crate) const REVISION: &[u8] = b"credentials.revision";

/// The list of credentials and revocations.
pub(crate) struct Credentials {
    database: Arc<dyn Database>,
    gate: Arc<Gate>,
    witnesses: Arc<Witnesses>,
    revoked: Mutex<Arc<Revoked>>,
}

/// Bounds on lots, which rows of an earlier release lack at their end and their credentials do not have.
const NO_BOUNDS: [u8; 2] = [0, 0];

/// Encodes a credential's row. Later fields are at the end, so that earlier releases can read it.
pub(crate) fn encode_row(entry: &CredentialEntry) -> Vec<u8> {
    let CredentialEntry { identity: Identity { id, owner, rights, until_s, lots }, created_s, revoked_s } = entry;
    encode(&((id, owner, rights, until_s), created_s, revoked_s, lots))
}

pub(crate) fn decode_row(key: &[u8], value: &[u8]) -> Result<CredentialEntry> {
    let ((id, owner, rights, until_s), created_s, revoked_s, lots) = decode(Table::Credentials, key, &[value, &NO_BOUNDS].concat())?;
    Ok(CredentialEntry { identity: Identity { id, owner, rights, until_s, lots }, created_s, revoked_s })
}

fn entries<V: View + ?Sized>(view: &V) -> Result<Vec<CredentialEntry>> {
    let (mut all, mut failed) = (Vec::new(), None);
    view.scan(Table::Credentials, &[], None, &mut |key, value| {
        match decode_row(key, value) {
            Ok(entry) => all.push(entry),
            Err(error) => failed = Some(error),
        }
        failed.is_none()
    })?;
    all.sort_by_key(|entry| (entry.created_s, entry.identity.id));
    failed.map_or(Ok(all), Err)
}

fn revision<V: View + ?Sized>(view: &V) -> Result<u64> {
    Ok(number_at(view, REVISION)?.map_or(0, u64::from_le_bytes))
}

fn revoked<V: View + ?Sized>(view: &V) -> Result<Revoked> {
    let ids = entries(view)?.into_iter().filter(|entry| entry.revoked_s.is_some()).map(|entry| entry.identity.id).collect();
    Ok(Revoked { revision: revision(view)?, ids })
}

impl Credentials {
    /// Opens the list; this process's servers then refuse the credentials revoked before.
    ///
    /// # Errors
    /// An error of the database.
    pub(crate) fn open(database: Arc<dyn Database>, gate: Arc<Gate>, witnesses: Arc<Witnesses>) -> Result<Credentials> {
        let known = read(&*database, |view| revoked(view))?;
        gate.revoke(&known.ids);
        Ok(Credentials { database, gate, witnesses, revoked: Mutex::new(Arc::new(known)) })
    }

    /// Returns the current revocations.
    pub(crate) fn revoked(&self) -> Arc<Revoked> {
        Arc::clone(&self.revoked.lock())
    }

    /// Executes an operation on the list.
    ///
    /// # Errors
    /// [`ErrorKind::Access`] for any credential but the store's own; [`ErrorKind::Exists`], [`ErrorKind::NotFound`].
    pub(crate) fn answer(&self, who: &Identity, operation: CredentialOperation) -> Result<CredentialBook> {
        if who.rights != Rights::Store {
            let problem =
                format!("only the store's own credential manages its credentials: give that, not the credential of `{}`", who.owner);
            return Err(Error::new(ErrorKind::Access, problem));
        }
        let unaware = match operation {
            CredentialOperation::List => Vec::new(),
            CredentialOperation::Register(identity) => {
                self.register(&identity)?;
                Vec::new()
            }
            CredentialOperation::Revoke(ids) => self.revoke(&ids)?,
        };
        Ok(CredentialBook { entries: read(&*self.database, |view| entries(view))?, unaware })
    }

    fn register(&self, identity: &Identity) -> Result<()> {
        check_name(&identity.owner)?;
        if identity.rights == Rights::Store || identity.id == CredentialId::default() {
            return Err(Error::new(ErrorKind::Invalid, "a store has only one credential of its own"));
        }
        let made = CredentialEntry { identity: identity.clone(), created_s: now_s(), revoked_s: None };
        write(&*self.database, &mut Unwatched, |t| {
            let all = entries(t)?;
            // Expired credentials are refused without a list.
            let over = |entry: &&CredentialEntry| entry.identity.until_s.is_some_and(|until| until < now_s());
            all.iter().filter(over).for_each(|entry| t.delete(Table::Credentials, &entry.identity.id.0));
            if all.iter().filter(|entry| !over(entry)).count() >= limits::CREDENTIALS {
                return Err(Error::new(ErrorKind::TooMany, format!("a store has at most {} credentials", limits::CREDENTIALS)));
            }
            if all.iter().any(|entry| entry.identity.id == made.identity.id) {
                return Err(Error::new(ErrorKind::Exists, format!("credential {} exists already", made.identity.id)));
            }
            t.put(Table::Credentials, &made.identity.id.0, encode_row(&made));
            Ok(())
        })?;
        self.database.sync(&mut Unwatched).map_err(Error::from)
    }

    /// Revokes credentials; returns the I/O servers that are not yet aware of it.
    fn revoke(&self, ids: &[CredentialId]) -> Result<Vec<String>> {
        if ids.is_empty() || ids.len() > limits::CREDENTIALS {
            return Err(Error::new(
                ErrorKind::Invalid,
                format!("{} credentials to revoke: expected 1 to {}", ids.len(), limits::CREDENTIALS),
            ));
        }
        let known = write(&*self.database, &mut Unwatched, |t| {
            for id in ids {
                let value = t.get(Table::Credentials, &id.0)?;
                let value = value.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no credential {id}")))?;
                let entry = decode_row(&id.0, &value)?;
                let revoked_s = entry.revoked_s.or(Some(now_s()));
                t.put(Table::Credentials, &id.0, encode_row(&CredentialEntry { revoked_s, ..entry }));
            }
            let next = revision(t)? + 1;
            t.put(Table::State, REVISION, next.to_le_bytes().to_vec());
            revoked(t)
        })?;
        self.database.sync(&mut Unwatched).map_err(Error::from)?;
        self.gate.revoke(ids);
        let revision = known.revision;
        *self.revoked.lock() = Arc::new(known);
        Ok(self.witnesses.wait_for_revision(revision, limits::WITNESS_PATIENCE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::trust::LotBounds;

    #[test]
    fn rows_of_credentials_come_back_with_their_bounds_and_earlier_ones_without() {
        let identity = Identity {
            id: CredentialId([3; 16]),
            owner: "ana".into(),
            rights: Rights::Write,
            until_s: Some(9),
            lots: LotBounds::new(Some(5 << 20), None).unwrap(),
        };
        for revoked_s in [None, Some(7)] {
            let entry = CredentialEntry { identity: identity.clone(), created_s: 300, revoked_s };
            assert_eq!(decode_row(&[], &encode_row(&entry)).unwrap(), entry);
            let earlier = encode(&((identity.id, "ana", Rights::Write, Some(9_u64)), 300_u64, revoked_s));
            let without = Identity { lots: LotBounds::default(), ..identity.clone() };
            assert_eq!(decode_row(&[], &earlier).unwrap(), CredentialEntry { identity: without, created_s: 300, revoked_s });
        }
    }
}
