//! Changes repeated after a lost answer: each is executed once.
//!
//! The answer is stored in the transaction that makes the change, under the client's number and its line, and replaced by the line's next
//! request, so that a client has one stored answer per line. A failed change had no effect, and is not stored. Answers are deleted when the
//! client is gone ([`forget`]).

use super::Namespace;
use super::caller::Caller;
use crate::database::{Table, Transaction, Unwatched, Watch, read, write};
use crate::inode::{decode, encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thalweg_wire::protocol::metadata::RequestNumber;
use thalweg_wire::{Error, ErrorKind, Result};

/// Answers deleted per transaction.
const AT_ONCE: usize = 1024;

impl Caller<'_> {
    /// Attaches the number of a request that may be repeated.
    pub(crate) fn numbered(self, request: Option<RequestNumber>) -> Self {
        Caller { request, ..self }
    }

    /// Returns whether the request was executed before; then its stored answer applies.
    pub(crate) fn was_done(&self) -> bool {
        self.was_done.get()
    }

    /// Executes a change in its own transaction.
    pub(super) fn change<T: Serialize + DeserializeOwned>(
        &self,
        watch: &mut dyn Watch,
        mut work: impl FnMut(&mut dyn Transaction) -> Result<T>,
    ) -> Result<T> {
        write(&*self.database, watch, |t| self.once(t, 0, &mut work))
    }

    /// Executes a part of a request within a transaction; returns the stored answer if it was executed before.
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
                // The client has abandoned it, and sent later requests.
                return Err(Error::new(
                    ErrorKind::Stale,
                    "a later request of the same client was already executed, so this one is refused",
                ));
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

/// Returns the clients with stored answers.
///
/// # Errors
/// An error of the database.
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

/// Deletes the answers of clients that are gone.
///
/// # Errors
/// An error of the database.
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
