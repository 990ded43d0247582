//! Exports for other programs. Parquet is the recording's own format; these are for programs that do not read it.

pub mod csv;
pub mod folded;
pub mod perfetto;
mod perfetto_lanes;
mod perfetto_messages;
mod perfetto_samples;
pub mod pprof;
pub mod speedscope;
mod stacks;
