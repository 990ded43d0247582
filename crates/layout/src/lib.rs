//! Distribution functions: where the bytes of a striped file are.
//!
//! **In:** a [`Spec`] (a distribution's name and its parameters as text) and how many datafiles there may be.
//! **Out:** a [`Layout`], which answers, by arithmetic alone, which datafile holds a logical offset and at which
//! physical offset, and cuts byte ranges into pieces and [`FlowBuffers`]. **Never:** I/O, and no
//! allocation in any of these answers.
//!
//! # Offsets
//!
//! All offsets and sizes are bytes in `u64`, and at most [`MAX_OFFSET`] (63 bits). A larger offset is taken for
//! `MAX_OFFSET`; a mapping whose result would be larger is `None` or an error, never a wrapped number.
//!
//! # The rank contract
//!
//! [`Distribution::logical_to_physical`]`(d, x)` is the *rank* of `x` on datafile `d`: the number of bytes of `d` whose
//! logical offset is below `x`, whether or not `x` itself is on `d`. Three things follow, and the rest of this crate
//! stands on them:
//!
//! - for every `x`, the ranks over all datafiles sum to `x`;
//! - a file of `x` bytes has exactly `rank(d, x)` bytes on `d`: that is truncate;
//! - the bytes of `d` inside a logical range are **one physical range**, `rank(d, start)..rank(d, end)`, whatever the
//!   distribution. Cutting a request into physically contiguous flow buffers is cutting that range.
//!
//! # Example
//!
//! ```
//! use thalweg_layout::{Layout, Spec};
//!
//! let spec: Spec = "simple_stripe,strip_size=65536".parse()?;
//! let layout = Layout::new(&spec, Some(4), 8)?; // 4 of the 8 targets there are
//!
//! // The first 10 MiB: for each datafile, flow buffers of at most 1 MiB, each with its pieces of the request's memory.
//! for datafile in 0..layout.num_datafiles() {
//!     for buffer in layout.flow_buffers(datafile, 0, 10 << 20, 1 << 20) {
//!         let pieces: u64 = buffer.pieces(&layout).map(|piece| piece.length).sum();
//!         assert_eq!(pieces, buffer.length);
//!     }
//! }
//! # Ok::<(), thalweg_layout::LayoutError>(())
//! ```

#![warn(unreachable_pub)]

mod distribution;
mod distributions;
mod divisor;
mod error;
mod layout;
mod limits;
pub mod plan;
mod segments;
mod spec;

pub use distribution::{Distribution, Piece};
pub use distributions::{Layout, kinds};
pub use error::LayoutError;
pub use limits::MAX_OFFSET;
pub use segments::{FlowBuffer, FlowBuffers};
pub use spec::{Kind, ParameterInfo, ParameterType, Spec};
