//! What the RPCs of a recording say, as a person reads it: as text, and drawn over time.

mod bins;
mod text;

pub use text::{live_heads, live_line, rpcstat};
