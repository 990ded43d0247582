//! Two runs held against each other.

/// Amounts of the same work differ by less than this part of the larger one: what is in the page cache already is not read again, and what the programs
/// of a command say to each other is counted too. Instead: the amount that the command was asked to move.
pub(crate) const OTHER_AMOUNT: f64 = 0.25;
/// Fewer bytes than these are what programs read as they start, and say nothing of what a run moves. Instead: the same.
pub(crate) const AT_START_BYTES: u64 = 64 << 10;
/// Of fewer transfers than these, one more or less is what a program reads for itself. Instead: which of them the command was asked for.
pub(crate) const FEW_TRANSFERS: u64 = 8;
/// A row that differs by less than this part of the longer run is put with the others. Instead: nothing; it is wording.
pub(crate) const SMALL_PART: f64 = 0.000_5;
