//! Reading around damage: in ever smaller pieces, which leaves out as little as possible.

use crate::files::StoreFile;
use std::ops::Range;
use thalweg_trace::Tracer;
use thalweg_wire::{Error, ErrorKind, Result};

/// Bytes left out at a time: blocks are larger, but of several datafiles only one may be damaged.
const LEAST_LEFT_OUT: u64 = 512;

/// Reads a range of a file into `bytes`, zeros for what is damaged; calls `each` with each piece in order, and whether it is intact.
///
/// # Errors
/// Any but damage; [`ErrorKind::Cancelled`] when `is_stopping`.
pub(super) fn read(
    tracer: &mut Tracer,
    file: &StoreFile,
    range: Range<u64>,
    bytes: &mut [u8],
    is_stopping: &dyn Fn() -> bool,
    each: &mut dyn FnMut(Range<u64>, bool),
) -> Result<()> {
    let base = range.start;
    let mut left = vec![range];
    while let Some(range) = left.pop() {
        if is_stopping() {
            return Err(Error::new(ErrorKind::Cancelled, "stopped on request"));
        }
        let piece = &mut bytes[(range.start - base) as usize..(range.end - base) as usize];
        match file.read_within(tracer, piece, range.start) {
            Ok(()) => each(range, true),
            Err(error) if error.kind() != ErrorKind::Damaged => return Err(error),
            Err(_) if piece.len() as u64 > LEAST_LEFT_OUT => {
                let middle = range.start.midpoint(range.end) / LEAST_LEFT_OUT * LEAST_LEFT_OUT;
                let middle = if middle > range.start { middle } else { range.start + LEAST_LEFT_OUT };
                left.extend([middle..range.end, range.start..middle]);
            }
            Err(_) => {
                piece.fill(0);
                each(range, false);
            }
        }
    }
    Ok(())
}
