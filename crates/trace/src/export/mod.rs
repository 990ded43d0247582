//! Exports for other programs. Parquet is the recording's own format; these are for programs that do not read it.

pub mod csv;
pub mod folded;
pub mod perfetto;
mod perfetto_arrows;
mod perfetto_counters;
mod perfetto_lanes;
mod perfetto_messages;
mod perfetto_names;
mod perfetto_path;
mod perfetto_samples;
mod perfetto_states;
mod perfetto_tracks;
mod perfetto_writer;
pub mod pprof;
pub mod speedscope;
mod stacks;
