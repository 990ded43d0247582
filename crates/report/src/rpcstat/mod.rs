//! Presents the RPC statistics of a recording: as text, and plotted over time.

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
pub use short::{rpcstat_about, rpcstat_short};
pub use text::{live_heads, live_line, rpcstat};

use thalweg_base::numbers::{count, duration};
use thalweg_explain::rpcstat::RpcStat;

/// Formats a number of calls: `1 call`, `2,002 calls`.
fn calls(many: u64) -> String {
    if many == 1 { "1 call".to_owned() } else { format!("{} calls", count(many)) }
}

/// Formats duration and number of calls: `37.2 s; 2,002 calls`.
fn how_long(d: &RpcStat) -> String {
    match d.has_length() {
        true => format!("{}; {}", duration(d.wall_s), calls(d.calls)),
        false => format!("{} at one instant", calls(d.calls)),
    }
}
