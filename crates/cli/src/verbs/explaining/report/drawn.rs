//! A recording in each format.

use crate::failure::Failure;
use thalweg_explain::Explanation;
use thalweg_report::PictureOptions;
use thalweg_trace::{Recording, Source};

/// Makes the page of a recording. RPCs recorded beside threads are plotted too.
pub(super) fn page(recording: &Recording, explanation: &Explanation, options: &PictureOptions) -> Result<String, Failure> {
    // A time window is drawn by threads and connections. A recording without RPCs is not an error here.
    let rpcs = if options.window.is_none() { thalweg_report::rpcstat_to_draw(recording).ok() } else { None };
    thalweg_report::html(recording, explanation, options, rpcs.as_ref()).map_err(Failure::failed)
}

/// Draws a recording as SVG; a packet capture by its RPCs over time.
pub(super) fn picture(recording: &Recording, explanation: &Explanation, options: &PictureOptions) -> Result<String, Failure> {
    let wanted = options.window.is_none() && recording.meta().recorder == "capture";
    match wanted.then(|| thalweg_report::rpcstat_to_draw(recording).ok()).flatten() {
        Some(rpcs) => Ok(thalweg_report::rpcstat_picture(&rpcs)),
        None => thalweg_report::svg(recording, explanation, options).map_err(Failure::failed),
    }
}
