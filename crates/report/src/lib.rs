//! Presents explanations and measurements: text for a terminal, static pictures, and pages of both.
//!
//! **In:** an explanation and the recording it explains; the result of a study, a sweep or a tuning. **Out:** strings: [`short()`],
//! [`text()`], [`svg`], [`png()`], [`html`], [`markdown()`], [`diff()`], [`study`], [`tune`]. **Never:** a cause, a gap, a figure or a prediction of
//! its own: it draws results of other crates, and says what it had to leave out.

#![warn(unreachable_pub)]

mod changes;
mod diff;
mod error;
mod html;
mod interactive;
mod markdown;
mod numbered;
mod page;
mod picture;
mod plot;
#[cfg(feature = "png")]
mod png;
#[cfg(not(feature = "png"))]
#[path = "no_png.rs"]
mod png;
mod predicted;
mod profile;
mod repeated;
mod rpcstat;
mod running;
mod runs;
mod served;
mod short;
pub mod study;
mod style;
mod text;
pub mod tune;
mod waits;
mod why;
mod words;

pub use diff::{diff, diff_page};
pub use error::{Error, Result};
pub use html::html;
pub use interactive::pair::Explained;
pub use markdown::markdown;
pub use page::TextOptions;
pub use picture::{PictureOptions, svg};
pub use png::png;
pub use predicted::{Prediction, predicted_against_achieved};
pub use profile::{MAX_COLUMNS, ProfileColumn, profile, profile_page};
pub use rpcstat::{
    live_heads, live_line, rpcstat, rpcstat_about, rpcstat_page, rpcstat_pair, rpcstat_pair_page, rpcstat_pair_picture, rpcstat_picture,
    rpcstat_short, rpcstat_to_draw,
};
pub use runs::{RunSummary, runs};
pub use served::{KnownRecording, ListedRecording, RecordingProgress, list_page, message_page, policy};
pub use short::{MAX_LINES, short};
pub use text::text;
