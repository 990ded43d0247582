//! The threads that carry out requests, started as they are needed.

use super::answers::problem;
use super::frames::{Memory, Output};
use super::requests::{Asked, Request};
use super::served::Served;
use super::{bytes, names};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use thalweg_wire::Error;

/// Bound: requests carried out at a time, and so frames in memory. Instead: further ones wait in the pipe.
const MOST: usize = 16;
/// Threads that wait for requests.
pub(super) struct Workers {
    served: Arc<Served>,
    output: Arc<Output>,
    requests: SyncSender<Asked>,
    taken: Arc<Mutex<Receiver<Asked>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts none yet.
    pub(super) fn new(served: Arc<Served>, output: Arc<Output>) -> Workers {
        // Without room: a request is either in the pipe or being carried out.
        let (requests, taken) = sync_channel(0);
        Workers { served, output, requests, taken: Arc::new(Mutex::new(taken)), threads: Vec::new() }
    }

    /// Gives a request to a thread, once one is free.
    pub(super) fn give(&mut self, asked: Asked) {
        let asked = match self.requests.try_send(asked) {
            Ok(()) => return,
            Err(TrySendError::Full(asked) | TrySendError::Disconnected(asked)) => asked,
        };
        if self.threads.len() < MOST {
            let (served, output, taken) = (Arc::clone(&self.served), Arc::clone(&self.output), Arc::clone(&self.taken));
            let work = move || work(&served, &output, &taken);
            match std::thread::Builder::new().name("request".to_owned()).spawn(work) {
                Ok(thread) => self.threads.push(thread),
                Err(error) if self.threads.is_empty() => {
                    let error = Error::system("starting a thread", error);
                    self.output.send(&json!({ "id": asked.id, "error": problem(&error) }), &[]);
                    return;
                }
                Err(_) => {}
            }
        }
        // The receiver is in `self`, so it is there.
        let _ = self.requests.send(asked);
    }

    /// Waits until all requests are answered.
    pub(super) fn finish(self) {
        drop(self.requests);
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

fn work(served: &Served, output: &Output, taken: &Mutex<Receiver<Asked>>) {
    let mut memory = Memory::default();
    loop {
        let next = taken.lock().recv();
        let Ok(asked) = next else { return };
        let id = asked.id;
        memory.clear();
        match asked.request.and_then(|request| answer(served, output, id, request, &asked.body, &mut memory)) {
            Ok(mut head) => {
                head["id"] = json!(id);
                output.send(&head, memory.answer());
            }
            Err(error) => output.send(&json!({ "id": id, "error": problem(&error) }), &[]),
        }
    }
}

/// Carries out a request; returns the head of its (last) answer, whose raw bytes are in `memory`.
fn answer(served: &Served, output: &Output, id: u64, request: Request, body: &[u8], memory: &mut Memory) -> Result<Value, Error> {
    match request {
        Request::Stat { path } => names::stat(served, &path),
        Request::List { path, depth } => names::list(served, &path, depth, &mut |page| {
            output.send(&json!({ "id": id, "entries": page, "more": true }), &[]);
        }),
        Request::MakeDirectory { path, parents, exists } => names::make_directory(served, &path, parents, exists),
        Request::Remove { path, what } => names::remove(served, &path, what),
        Request::Rename { from, to, replace } => names::rename(served, &from, &to, replace),
        Request::Touch { path } => names::touch(served, &path),
        Request::Open { path, ranges } => bytes::open(served, &path, &ranges, memory),
        Request::Read { file, ranges } => bytes::read(served, file, &ranges, memory),
        Request::Close { file } => served.opened.close(file).map(|()| json!({})),
        Request::Create { path, replace, parents } => bytes::create(served, &path, replace, parents),
        Request::Write { file, offset } => bytes::write(served, file, offset, body),
        Request::Publish { file, size, sync } => bytes::publish(served, file, size, sync),
        Request::Discard { file } => bytes::discard(served, file),
        Request::Put { path, replace, parents, sync } => bytes::put(served, &path, (replace, parents, sync), body),
        Request::Copy { from, to, replace, parents, sync } => bytes::copy(served, (&from, &to), (replace, parents, sync)),
    }
}
