//! Thresholds for comparing two runs.

/// Two runs of the same work move amounts that differ by less than this part of the larger one: cached data is not read again, and bytes
/// between the programs of a command count too. Instead: the amount the command was asked to move.
pub(crate) const OTHER_AMOUNT: f64 = 0.25;
/// Fewer bytes are what programs read as they start. Instead: as above.
pub(crate) const AT_START_BYTES: u64 = 64 << 10;
/// With fewer transfers, one more or less can be a program's own reading. Instead: which transfers the command was asked for.
pub(crate) const FEW_TRANSFERS: u64 = 8;
/// Rows that differ by less than this part of the longer run are summed up as the others. Instead: nothing: wording only.
pub(crate) const SMALL_PART: f64 = 0.000_5;
