//! Batches of short writes or reads in one request, for trees of small files. Each has its own result; the failure of one (a full
//! target) does not stop the others.

use super::service::{IoSession, at_target, bounded, emulated, within_a_file};
use std::sync::Arc;
use thalweg_bulk::{crc32c, resize};
use thalweg_trace::{SpanFields, SpanKind, Time};
use thalweg_wire::Exchange;
use thalweg_wire::limits;
use thalweg_wire::protocol::io::{DatafileId, Durability, IoReply, Refusal};
use thalweg_wire::{Error, ErrorKind, Result};

/// Returns the bytes of all parts together.
fn total(parts: &[(DatafileId, u64, u64)]) -> Result<u64> {
    bounded(parts.len())?;
    let sum = parts.iter().try_fold(0_u64, |sum, (_, _, length)| sum.checked_add(*length));
    match sum {
        Some(sum) if sum <= limits::MANY_BYTES => Ok(sum),
        _ => Err(Error::new(ErrorKind::Invalid, format!("a batch of more than {} bytes", limits::MANY_BYTES))),
    }
}

fn refusal(error: &Error) -> Refusal {
    Refusal { errno: error.kind().errno(), message: error.to_string() }
}

impl IoSession {
    /// Receives and verifies the whole payload, then performs the writes one by one.
    pub(super) fn write_many(
        &mut self,
        exchange: &mut Exchange<'_>,
        writes: &[(DatafileId, u64, u64)],
        durability: Durability,
    ) -> Result<()> {
        let length = total(writes)?;
        if length != exchange.payload_left() {
            let problem = format!("writes of {length} bytes with a payload of {}", exchange.payload_left());
            return Err(Error::new(ErrorKind::Invalid, problem));
        }
        self.with_memory(length, |session| {
            session.receive(exchange, (0, length), || format!("{length} bytes of {} writes", writes.len()))?;
            let (writing, asked) = (exchange.tracer.begin(), session.asked());
            let mut rest = &session.buffer[..];
            let mut each: Vec<Result<()>> = Vec::with_capacity(writes.len());
            for (id, offset, length) in writes {
                let (bytes, others) = rest.split_at(*length as usize);
                rest = others;
                each.push(session.write_one(*id, *offset, bytes, durability));
            }
            session.emulate_many(exchange, SpanKind::DiskWrite, writes, asked);
            let about = SpanFields { size_bytes: Some(length), count: Some(writes.len() as u32), ..exchange.about() };
            exchange.tracer.end(writing, SpanKind::FileWrite, about);
            if durability == Durability::Synced {
                // After all writes: the disk has had time to work on the first ones.
                let syncing = exchange.tracer.begin();
                for ((id, ..), done) in writes.iter().zip(&mut each) {
                    if done.is_ok() {
                        let server = &session.server;
                        *done = server.target(*id).and_then(|target| target.sync(*id).map_err(|e| at_target(e, target)));
                    }
                }
                let about = SpanFields { count: Some(writes.len() as u32), ..exchange.about() };
                exchange.tracer.end(syncing, SpanKind::FileSync, about);
            }
            let verifier = session.server.verifier;
            let each = each.into_iter().map(|done| done.map_err(|e| refusal(&e))).collect();
            exchange.reply(&IoReply::WrittenMany { verifier, each })
        })
    }

    fn write_one(&self, id: DatafileId, offset: u64, bytes: &[u8], durability: Durability) -> Result<()> {
        within_a_file(offset, bytes.len() as u64)?;
        let target = self.server.changeable(id, &self.who)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let written = target.briefly(id, true).and_then(|datafile| {
            let datafile = datafile.expect("created");
            datafile.write(bytes, offset)?;
            if durability != Durability::Returned {
                datafile.start_writeback(offset, bytes.len() as u64);
            }
            Ok(())
        });
        written.map_err(|e| at_target(e, target))
    }

    /// Performs a batch's work on the targets' emulated disks.
    fn emulate_many(&self, exchange: &Exchange<'_>, kind: SpanKind, parts: &[(DatafileId, u64, u64)], asked: Option<Time>) {
        if asked.is_none() {
            return;
        }
        for &(id, offset, length) in parts {
            if let Ok(target) = self.server.target(id) {
                emulated(target, exchange, (kind, id, offset, length), asked);
            }
        }
    }

    /// Performs the reads one by one, and sends the bytes.
    pub(super) fn read_many(&mut self, exchange: &mut Exchange<'_>, reads: &[(DatafileId, u64, u64)]) -> Result<()> {
        let length = total(reads)?;
        self.with_memory(length, |session| {
            let (reading, asked) = (exchange.tracer.begin(), session.asked());
            resize(&mut session.buffer, length as usize);
            let server = Arc::clone(&session.server);
            let mut have = 0;
            let mut each = Vec::with_capacity(reads.len());
            for (id, offset, length) in reads {
                let read = (|| {
                    within_a_file(*offset, *length)?;
                    let target = server.readable(*id, &session.who)?;
                    let Some(datafile) = target.briefly(*id, false).map_err(|e| at_target(e, target))? else { return Ok(0) };
                    let into = &mut session.buffer[have..have + *length as usize];
                    datafile.read(into, *offset).map_err(|e| at_target(e, target))
                })();
                have += *read.as_ref().unwrap_or(&0);
                each.push(read.map(|n| n as u64).map_err(|e| refusal(&e)));
            }
            session.emulate_many(exchange, SpanKind::DiskRead, reads, asked);
            let about = SpanFields { size_bytes: Some(have as u64), count: Some(reads.len() as u32), ..exchange.about() };
            exchange.tracer.end(reading, SpanKind::FileRead, about);
            let checking = exchange.tracer.begin();
            let crc = crc32c(&session.buffer[..have]);
            exchange.tracer.end(checking, SpanKind::AppChecksum, SpanFields { size_bytes: Some(have as u64), ..exchange.about() });
            exchange.reply_checked(&IoReply::ReadMany(each), &session.buffer[..have], if have == 0 { 0 } else { crc })
        })
    }
}
