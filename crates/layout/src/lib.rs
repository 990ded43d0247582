//! Distribution functions: the location of each byte of a striped file.
//!
//! **In:** a [`Spec`] (a distribution's name and its parameters as text) and the number of available targets. **Out:** a
//! [`Layout`], which computes the datafile and physical offset of a logical offset, and cuts byte ranges into pieces and
//! [`FlowBuffers`]. **Never:** I/O, nor allocation in these computations.
//!
//! # Offsets
//!
//! All offsets and sizes are bytes in `u64`, at most [`MAX_OFFSET`] (63 bits). A larger offset counts as `MAX_OFFSET`; a mapping
//! whose result would be larger returns `None` or an error, never a wrapped number.
//!
//! # The rank contract
//!
//! [`Distribution::logical_to_physical`]`(d, x)` is the *rank* of `x` on datafile `d`: how many bytes of `d` have a logical
//! offset below `x`, whether or not `x` itself is on `d`. The rest of this crate rests on three consequences:
//!
//! - for every `x`, the ranks over all datafiles sum to `x`;
//! - a file of `x` bytes has exactly `rank(d, x)` bytes on `d`: its size there after truncate;
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
