//! Flow buffers: splitting a range into them, locating their pieces in memory, checksums, and receiving them.

use std::io::{IoSlice, IoSliceMut};
use thalweg_bulk::Crc32c;
use thalweg_layout::{FlowBuffer, Layout};
use thalweg_trace::{SpanFields, SpanId, SpanKind, Tracer};
use thalweg_wire::limits;
use thalweg_wire::protocol::io::IoReply;
use thalweg_wire::{Connection, Reply, unexpected};
use thalweg_wire::{Error, ErrorKind, Result};

/// Splits a range of a file into flow buffers of at most [`limits::CONNECTION_MEMORY_BYTES`].
///
/// # Errors
/// When the range ends past the largest file.
pub(super) fn buffers(layout: &Layout, offset: u64, length: u64) -> Result<Vec<FlowBuffer>> {
    if offset.checked_add(length).is_none_or(|end| end > limits::FILE_BYTES) {
        let problem = format!("{length} bytes at {offset} end past the largest file (2^63 - 1 bytes)");
        return Err(Error::new(ErrorKind::TooLarge, problem));
    }
    let each = |datafile: u32| layout.flow_buffers(datafile, offset, length, limits::CONNECTION_MEMORY_BYTES);
    Ok((0..layout.num_datafiles()).flat_map(each).collect())
}

/// Returns the pieces of a flow buffer, in order, in memory that begins at logical offset `base`.
pub(super) fn pieces_of<'a>(layout: &Layout, buffer: FlowBuffer, memory: &'a mut [u8], base: u64) -> Vec<IoSliceMut<'a>> {
    let (mut rest, mut at) = (memory, base);
    let mut pieces = Vec::new();
    for piece in buffer.pieces(layout) {
        // A datafile's logical offsets increase with its physical ones.
        let (_, from_here) = rest.split_at_mut((piece.logical_offset - at) as usize);
        let (here, after) = from_here.split_at_mut(piece.length as usize);
        pieces.push(IoSliceMut::new(here));
        (rest, at) = (after, piece.logical_offset + piece.length);
    }
    pieces
}

/// Receives the payload of an answered read into a flow buffer's pieces, verifies it, and zeroes what the datafile does not have.
pub(super) fn receive(
    connection: &mut Connection,
    tracer: &mut Tracer,
    parent: Option<SpanId>,
    buffer: FlowBuffer,
    reply: Reply<IoReply>,
    pieces: &mut [IoSliceMut<'_>],
) -> Result<()> {
    let header = reply.header;
    check_read(&reply.body, header.payload_bytes, buffer.length)?;
    let size_bytes = Some(header.payload_bytes);
    let mut left = header.payload_bytes as usize;
    let mut crc = Crc32c::default();
    if left > 0 {
        let receiving = tracer.begin();
        let mut wanted: Vec<IoSliceMut<'_>> = Vec::with_capacity(pieces.len());
        for piece in pieces.iter_mut() {
            let many = piece.len().min(left);
            wanted.push(IoSliceMut::new(&mut piece[..many]));
            left -= many;
            if left == 0 {
                break;
            }
        }
        connection.receive_pieces(&header, &mut wanted)?;
        let about =
            SpanFields { object: connection.object(), parent: reply.span(), request: reply.request, size_bytes, ..SpanFields::default() };
        tracer.end(receiving, SpanKind::NetReceive, about);
    }
    connection.completed(tracer, reply, size_bytes);
    let checking = tracer.begin();
    let mut left = header.payload_bytes as usize;
    for piece in pieces.iter_mut() {
        let have = piece.len().min(left);
        crc.update(&piece[..have]);
        piece[have..].fill(0);
        left -= have;
    }
    tracer.end(checking, SpanKind::AppChecksum, SpanFields { parent, size_bytes, ..SpanFields::default() });
    if header.payload_bytes > 0 && crc.finish() != header.payload_crc {
        return Err(damaged(header.payload_bytes as usize));
    }
    Ok(())
}

/// Checks that a reply fits a read.
fn check_read(reply: &IoReply, payload_bytes: u64, asked: u64) -> Result<()> {
    match reply {
        IoReply::Read if payload_bytes <= asked => Ok(()),
        IoReply::Read => Err(Error::new(ErrorKind::Protocol, format!("{payload_bytes} bytes in answer to a read of {asked}"))),
        other => Err(unexpected(other)),
    }
}

/// Returns the error for bytes that did not match their checksum.
pub(super) fn damaged(bytes: usize) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{bytes} bytes read do not match their checksum: they were damaged in transit twice"))
}

/// Returns the pieces of a flow buffer, in a request's memory that begins at logical offset `base`, with their checksum.
pub(super) fn gather<'a>(layout: &Layout, buffer: FlowBuffer, memory: &'a [u8], base: u64) -> (Vec<IoSlice<'a>>, u32) {
    let mut crc = Crc32c::default();
    let mut pieces = Vec::new();
    for piece in buffer.pieces(layout) {
        let at = (piece.logical_offset - base) as usize;
        let bytes = &memory[at..at + piece.length as usize];
        crc.update(bytes);
        pieces.push(IoSlice::new(bytes));
    }
    (pieces, crc.finish())
}
