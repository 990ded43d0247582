//! Recordings for other programs. Parquet is the recording itself; these are for what cannot read it.

pub mod csv;
pub mod folded;
pub mod perfetto;
mod perfetto_lanes;
mod perfetto_messages;
mod perfetto_samples;
pub mod pprof;
pub mod speedscope;
mod stacks;
