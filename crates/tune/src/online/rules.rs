//! Every number of the tuner, with its reason.

use std::time::Duration;

/// A window is at least so long: goodput over less is that of a few flow buffers, or of one burst.
pub(super) const WINDOW: Duration = Duration::from_secs(1);
/// ... and at least so many round trips: what TCP and a queue do within a round trip is no property of a setting.
pub(super) const WINDOW_ROUND_TRIPS: u32 = 10;
/// A window is longer, up to [`LONGEST_WINDOWS`] times, while it has fewer flow buffers than this: one more or less is then 4 %.
pub(super) const WINDOW_BUFFERS: u64 = 25;
/// See [`WINDOW_BUFFERS`].
pub(super) const LONGEST_WINDOWS: u32 = 3;
/// A step is kept from this gain on: below it, one window hardly differs from the next (huggingface.js PR 2352, inup PR 96).
pub(super) const GAIN: f64 = 0.05;
/// Each further connection must bring so much more. Without a price, two tuners on one link outbid each other for ever, since who has
/// more connections has a larger part of it; with one they meet (Falcon, SC'21: a utility with a factor 1.02 for each connection).
pub(super) const PRICE: f64 = 0.02;
/// A window with less than this of the goodput before is a collapse: it is acted on at once, without a second window.
pub(super) const COLLAPSE: f64 = 0.7;
/// A probe is taken back before its window is over when half a window had less than this.
pub(super) const EARLY: f64 = 0.6;
/// While what was raised is lowered after a collapse, half a window must have so many times the collapsed goodput for it to be measured there;
/// else it is lowered further. Fewer connections at a server that throttles them bring far more than that, or nothing.
pub(super) const RECOVERS: f64 = 1.3;
/// Goodput that differs from before by this much in two windows has changed by itself: what was tried before may be right now.
pub(super) const CHANGED: f64 = 0.15;
/// The first wait after a failed probe; it doubles with each.
pub(super) const FIRST_WAIT: Duration = Duration::from_secs(2);
/// The longest wait: an optimum that moves where nothing shows it is found within this and the probes that lead there, in 30 s.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(16);
/// What was not connected to, or was lost, is not tried again for so long: errors are for backing off.
pub(super) const REFUSED_WAIT: Duration = Duration::from_secs(60);
/// Failed probes may have cost so much of the time before a parameter is tried a second time: with the probe that follows, below 2 %.
pub(super) const COST: f64 = 0.01;
/// With so much left of a copy, in windows, nothing is begun: a probe would not be judged before the end, or not pay.
pub(super) const LAST_WINDOWS: u32 = 4;
/// A probe that could not be judged for so many windows, since nothing comparable moved, is taken back.
pub(super) const WINDOWS_WITHOUT_WORK: u32 = 6;
/// Threads that are without work for so much of their time wait for a program: goodput is the program's then.
pub(super) const RESTING: f64 = 0.6;
/// Memory for flow buffers in flight, here and at the servers, unless set otherwise.
pub(super) const MEMORY_BYTES: u64 = 256 << 20;

/// The largest value that is ever tried. Past these nothing was ever found to gain, and others suffer: s5cmd issue 12 (256 workers slower than 16 to
/// 32), rclone issue 6280 (a server crashed by the default).
pub(super) fn ceiling(parameter: &str) -> u64 {
    match parameter {
        "streams" | "workers" => 32,
        "requests" => 16,
        _ => 64,
    }
}
