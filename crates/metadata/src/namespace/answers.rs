//! Changes that are sent again, since their answer was lost: each is done once.
//!
//! The answer is kept in the transaction that makes the change, under the client's number and its line; the next request of the
//! line takes its place, so that a client has as many answers here as it has lines. What failed has changed nothing, and is not kept. They go when
//! the client is gone ([`forget`]).

use super::Namespace;
use super::caller::Caller;
use crate::database::{Table, Transaction, Unwatched, Watch, read, write};
use crate::inode::{decode, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thalweg_wire::protocol::metadata::RequestNumber;
use thalweg_wire::{Error, ErrorKind, Result};

/// Answers that go in one transaction.
const AT_ONCE: usize = 1024;

impl Caller<'_> {
    /// The same, for a request that may be sent again.
    pub(crate) fn numbered(self, request: Option<RequestNumber>) -> Self {
        Caller { request, ..self }
    }

    /// Whether what was asked was done before: the answer is that one.
    pub(crate) fn was_done(&self) -> bool {
        self.was_done.get()
    }

    /// A change, as one transaction.
    pub(super) fn change<T: Serialize + DeserializeOwned>(
        &self,
        watch: &mut dyn Watch,
        mut work: impl FnMut(&mut dyn Transaction) -> Result<T>,
    ) -> Result<T> {
        write(&*self.database, watch, |t| self.once(t, 0, &mut work))
    }

    /// A part of a request, as a part of a transaction: what became of it, if it was done before.
    pub(super) fn once<T: Serialize + DeserializeOwned>(
        &self,
        t: &mut dyn Transaction,
        run: u8,
        work: impl FnOnce(&mut dyn Transaction) -> Result<T>,
    ) -> Result<T> {
        self.was_done.set(false);
        let Some(request) = self.request else { return work(t) };
        let key = [&request.client.to_be_bytes()[..], &[request.line, run]].concat();
        if let Some(value) = t.get(Table::Answers, &key)? {
            let (number, answer): (u64, Vec<u8>) = decode(Table::Answers, &key, &value)?;
            if number > request.number {
                // Its client has given it up, and gone on.
                return Err(Error::new(ErrorKind::Stale, "a later request of the same client is done: this one is not done any more"));
            }
            if number == request.number {
                self.was_done.set(true);
                return decode(Table::Answers, &key, &answer);
            }
        }
        let done = work(t)?;
        t.put(Table::Answers, &key, encode(&(request.number, encode(&done))));
        Ok(done)
    }
}

/// The clients of which answers are kept.
///
/// # Errors
/// The database's.
pub(crate) fn clients(namespace: &Namespace) -> Result<Vec<u64>> {
    read(&*namespace.database, |view| {
        let mut found = Vec::new();
        view.scan(Table::Answers, &[], None, &mut |key, _| {
            let client = key.first_chunk().map(|client| u64::from_be_bytes(*client));
            if let Some(client) = client.filter(|client| found.last() != Some(client)) {
                found.push(client);
            }
            true
        })?;
        Ok(found)
    })
}

/// These clients are gone: their answers go.
///
/// # Errors
/// The database's.
pub(crate) fn forget(namespace: &Namespace, clients: &[u64]) -> Result<()> {
    for some in clients.chunks(AT_ONCE) {
        write::<_, Error>(&*namespace.database, &mut Unwatched, |t| {
            for client in some {
                let mut keys = Vec::new();
                t.scan(Table::Answers, &client.to_be_bytes(), None, &mut |key, _| {
                    keys.push(key.to_vec());
                    true
                })?;
                keys.iter().for_each(|key| t.delete(Table::Answers, key));
            }
            Ok(())
        })?;
    }
    Ok(())
}
