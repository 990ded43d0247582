//! Makes directories of many files in batches: names in one request, then their bytes in one request to each server.
//!
//! Every file has one byte on each of its datafiles (strips of one byte), so all datafiles exist with equal sizes, and a file's size is its
//! number of datafiles: a wrong size is noticed. Files are closed as written, so the service knows their sizes, as for files written by
//! programs.

use super::client::{Client, file_name, owner};
use super::protocol::Answer;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use thalweg_client::FileHandle;
use thalweg_client::metadata::{OpenFile, SmallDone};
use thalweg_client::wire::protocol::io::{DatafileId, Durability, IoReply, IoRequest};
use thalweg_client::wire::protocol::metadata::{End, Existing, FileId, FilePath, LayoutChoice, Small};
use thalweg_layout::Spec;
use thalweg_trace::Tracer;

/// Maximum number of files in a batch.
const BATCH_FILES: u64 = 256;
const BATCH_DATAFILES: u64 = 4096;
/// Concurrent batches: requests of one to the I/O servers overlap with requests of another to the metadata service.
const THREADS: usize = 4;

/// Returns the layout of files of `datafiles` datafiles.
fn layout(datafiles: u32) -> LayoutChoice {
    let spec = Spec::new("simple_stripe").with("strip_size", 1);
    LayoutChoice { spec: Some(spec), datafiles: Some(datafiles.max(1)), placement: None, lot: None }
}

/// Makes the directory and its files.
pub(super) fn populate(client: &Client, directory: &str, files: u64, datafiles: u32) -> Result<Answer> {
    let begun = Instant::now();
    let directory = client.make_directories(directory)?;
    let batch = (BATCH_DATAFILES / u64::from(datafiles.max(1))).clamp(1, BATCH_FILES);
    let next = AtomicU64::new(0);
    let clients = (0..THREADS).map(|_| client.another()).collect::<Result<Vec<Client>>>()?;
    std::thread::scope(|scope| {
        let work = |client: Client| {
            let next = &next;
            scope.spawn(move || {
                let mut written = Vec::new();
                loop {
                    let first = next.fetch_add(batch, Ordering::Relaxed);
                    if first >= files {
                        // The last batch's sizes are reported too.
                        return each_done(client.names.many(&mut Tracer::off(), &[], written)).and_then(|_| report_closed(&client));
                    }
                    let numbers = first..(first + batch).min(files);
                    written = one_batch(&client, directory, numbers, datafiles, written)
                        .inspect_err(|_| next.store(u64::MAX / 2, Ordering::Relaxed))?;
                }
            })
        };
        let workers: Vec<_> = clients.into_iter().map(work).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().map_err(|_| Error::Choice("a thread that populates panicked: a bug".into()))?)
    })?;
    Ok(Answer::Took(begun.elapsed().as_secs_f64()))
}

fn report_closed(client: &Client) -> Result<()> {
    client.names.report_closed(&mut Tracer::off())?;
    Ok(())
}

fn each_done(each: Vec<thalweg_client::wire::Result<SmallDone>>) -> Result<Vec<SmallDone>> {
    Ok(each.into_iter().collect::<thalweg_client::wire::Result<_>>()?)
}

/// Makes one batch; returns the closes to report with the next.
fn one_batch(
    client: &Client,
    directory: FileId,
    numbers: std::ops::Range<u64>,
    datafiles: u32,
    written: Vec<(OpenFile, End)>,
) -> Result<Vec<(OpenFile, End)>> {
    let layout = layout(datafiles);
    let operations: Vec<Small> = numbers
        .map(|number| {
            let place = FilePath { from: directory, path: file_name(number).into_bytes() };
            let new = client.names.new_file(place, owner(0o755), Existing::Refuse, &layout);
            if datafiles == 0 { Small::MakeFile(new) } else { Small::Create(new) }
        })
        .collect();
    let made = each_done(client.names.many(&mut Tracer::off(), &operations, written))?;
    let files: Vec<OpenFile> =
        made.into_iter().filter_map(|done| if let SmallDone::Opened(file) = done { Some(file) } else { None }).collect();
    let mut by_server: BTreeMap<usize, Vec<(DatafileId, u64, u64)>> = BTreeMap::new();
    for file in &files {
        for id in FileHandle::from_attributes("a new file", &file.attributes)?.datafiles() {
            by_server.entry(client.data.server_of(id.target)?).or_default().push((id, 0, 1));
        }
    }
    for (server, writes) in by_server {
        let payload = vec![b'x'; writes.len()];
        let request = IoRequest::WriteMany { writes, durability: Durability::Returned };
        match client.data.links()[server].call(&mut Tracer::off(), &request, &payload)?.0 {
            IoReply::WrittenMany { each, .. } => {
                if let Some(refusal) = each.into_iter().find_map(std::result::Result::err) {
                    return Err(Error::Choice(format!("a byte of a new file was not written: {}", refusal.message)));
                }
            }
            other => return Err(Error::Choice(format!("writing new files: unexpected answer: {other:?}"))),
        }
    }
    Ok(files.into_iter().map(|file| (file, End::whole(u64::from(datafiles), false))).collect())
}
