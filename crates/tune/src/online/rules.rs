//! Every number of the tuner, with its reason.

use std::time::Duration;

/// Minimum length of a window: over less, goodput is that of a few flow buffers, or of one burst.
pub(super) const WINDOW: Duration = Duration::from_secs(1);
/// Minimum length of a window in round trips: behaviour of TCP and queues within a round trip is not a property of a setting.
pub(super) const WINDOW_ROUND_TRIPS: u32 = 10;
/// A window is extended, up to [`LONGEST_WINDOWS`] times, while it has fewer flow buffers than this: one more or less is then 4 %.
pub(super) const WINDOW_BUFFERS: u64 = 25;
/// Maximum extension of a window; see [`WINDOW_BUFFERS`].
pub(super) const LONGEST_WINDOWS: u32 = 3;
/// Minimum gain for keeping a step: smaller differences occur between unchanged windows (huggingface.js PR 2352, inup PR 96).
pub(super) const GAIN: f64 = 0.05;
/// Additional gain required per further connection. Without a price, two tuners on one link outbid each other for ever, since the one with
/// more connections gets a larger share; with it they converge (Falcon, SC'21: a utility with a factor of 1.02 per connection).
pub(super) const PRICE: f64 = 0.02;
/// A window below this share of the previous goodput is a collapse: acted on immediately, without a second window.
pub(super) const COLLAPSE: f64 = 0.7;
/// A probe is reverted early when half a window had less than this share.
pub(super) const EARLY: f64 = 0.6;
/// While a raised parameter is lowered after a collapse, half a window must reach this multiple of the collapsed goodput for the value to
/// be measured; otherwise it is lowered further. At a throttling server, fewer connections bring far more than that, or nothing.
pub(super) const RECOVERS: f64 = 1.3;
/// Goodput that differs by this share in two windows has changed by itself: changes that failed before may now succeed.
pub(super) const CHANGED: f64 = 0.15;
/// Back-off after a failed probe; doubles with each.
pub(super) const FIRST_WAIT: Duration = Duration::from_secs(2);
/// Maximum back-off: an optimum that moves unnoticed is found within this time plus that of the probes that lead there, in 30 s.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(16);
/// Back-off after a refused or lost connection: errors call for backing off.
pub(super) const REFUSED_WAIT: Duration = Duration::from_secs(60);
/// Maximum share of the time that failed probes may have cost before a parameter is tried a second time: below 2 % including the following
/// probe.
pub(super) const COST: f64 = 0.01;
/// With less than this left of a copy, in windows, no probe begins: it could not be judged before the end, or would not pay.
pub(super) const LAST_WINDOWS: u32 = 4;
/// Windows without comparable data after which a probe is reverted.
pub(super) const WINDOWS_WITHOUT_WORK: u32 = 6;
/// Share of idle time above which threads are waiting for a program: goodput is then determined by the program.
pub(super) const RESTING: f64 = 0.6;
/// Default memory limit for flow buffers in flight, here and at the servers.
pub(super) const MEMORY_BYTES: u64 = 256 << 20;

/// Returns the largest value ever tried. Larger ones were never found to gain, and harm others: s5cmd issue 12 (256 workers slower than 16
/// to 32), rclone issue 6280 (a server crashed by the default).
pub(super) fn ceiling(parameter: &str) -> u64 {
    match parameter {
        "streams" | "workers" => 32,
        "requests" => 16,
        _ => 64,
    }
}
