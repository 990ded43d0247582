//! Many concurrent listings of one directory, and a writer of small files beside them.
//!
//! Each listing is a separate client with its own connections, and starts over at the end. The writer creates, writes and closes one file
//! after the other, and times each.

use super::client::{Client, content, file_name, owner};
use super::protocol::Answer;
use crate::{Error, Result};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thalweg_client::walk::{WalkOptions, Walker};
use thalweg_client::wire::protocol::metadata::{End, Existing, FilePath, LayoutChoice};
use thalweg_client::{FileHandle, StoreFile};
use thalweg_trace::Tracer;

/// Entries that a listing takes at a time.
const BATCH: usize = 256;
/// Timeout for all listings to start.
const BEGIN_WITHIN: Duration = Duration::from_secs(60);

/// Creates, writes and closes files; returns the time of each.
pub(super) fn write(client: &Client, directory: &str, files: u32, bytes: u64) -> Result<Answer> {
    client.make_directories(directory)?;
    let layout = LayoutChoice { datafiles: Some(1), ..LayoutChoice::default() };
    let data = content(bytes);
    let mut tracer = Tracer::off();
    let mut took = Vec::with_capacity(files as usize);
    for number in 0..u64::from(files) {
        let place = FilePath::at(format!("{directory}/{}", file_name(number)));
        let begun = Instant::now();
        let made = client.names.create(&mut tracer, &place, owner(0o755), Existing::Replace, &layout)?;
        let handle = FileHandle::from_attributes(file_name(number), &made.attributes)?;
        StoreFile::new(Arc::clone(&client.data), handle).write_at(&data, 0)?;
        made.ended(End::whole(bytes, false));
        client.names.report_closed(&mut tracer)?;
        took.push(begun.elapsed().as_secs_f64());
    }
    Ok(Answer::Wrote(took))
}

/// Running listings.
pub(super) struct Crowd {
    threads: Vec<JoinHandle<()>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    begun: AtomicU32,
    listed: AtomicU64,
    problem: Mutex<Option<Error>>,
}

impl Crowd {
    /// Starts listings; returns when each has listed some entries.
    pub(super) fn begin(client: &Client, directory: &str, listings: u32) -> Result<Crowd> {
        let mut crowd = Crowd { threads: Vec::new(), shared: Arc::default() };
        for number in 0..listings {
            let (client, directory, shared) = (client.another()?, directory.to_owned(), Arc::clone(&crowd.shared));
            let thread = std::thread::Builder::new().name(format!("listing {number}")).spawn(move || {
                if let Err(error) = list(&client, &directory, &shared) {
                    shared.problem.lock().get_or_insert(error);
                }
            });
            crowd.threads.push(thread.map_err(Error::file(Path::new("a thread for a listing"), "starting it"))?);
        }
        let begun = Instant::now();
        while crowd.shared.begun.load(Ordering::Acquire) < listings {
            crowd.trouble()?;
            if begun.elapsed() > BEGIN_WITHIN {
                return Err(Error::Choice(format!("{directory}: {listings} listings have not started after {} s", BEGIN_WITHIN.as_secs())));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        crowd.shared.listed.store(0, Ordering::Release);
        Ok(crowd)
    }

    fn trouble(&self) -> Result<()> {
        self.shared.problem.lock().take().map_or(Ok(()), Err)
    }

    /// Stops them; returns the number of entries listed since all had started.
    pub(super) fn end(mut self) -> Result<u64> {
        let listed = self.shared.listed.load(Ordering::Acquire);
        self.stop();
        self.trouble().map(|()| listed)
    }

    fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop();
    }
}

fn list(client: &Client, directory: &str, shared: &Shared) -> Result<()> {
    let walker = Walker::new(client.names.clone(), Arc::clone(&client.data), WalkOptions::default());
    let mut tracer = Tracer::off();
    let mut has_begun = false;
    loop {
        let mut walk = walker.directory(&FilePath::at(directory));
        loop {
            if shared.stop.load(Ordering::Acquire) {
                return Ok(());
            }
            let batch = walk.next_batch(&mut tracer, BATCH)?;
            shared.listed.fetch_add(batch.len() as u64, Ordering::Relaxed);
            if !std::mem::replace(&mut has_begun, true) {
                shared.begun.fetch_add(1, Ordering::AcqRel);
            }
            if batch.is_empty() {
                break;
            }
        }
    }
}
