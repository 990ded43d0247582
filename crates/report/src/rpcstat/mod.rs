//! What the RPCs of a recording say, as a person reads it: as text, and drawn over time.

mod axes;
mod bins;
mod close_up;
mod lengths;
mod page;
mod pair;
mod panels;
mod picture;
mod rows;
mod scales;
mod section;
mod shades;
mod short;
mod text;

pub use page::{rpcstat_page, rpcstat_pair_page};
pub use pair::rpcstat_pair;
pub use picture::{rpcstat_pair_picture, rpcstat_picture, rpcstat_to_draw};
pub(crate) use section::rpcstat_sections;
pub use short::rpcstat_short;
pub use text::{live_heads, live_line, rpcstat};
