//! Presents measurements: the results of whole commands ([`commands()`]), of a layout study ([`layout`]), of a study of listings ([`ls`])
//! and of a parameter sweep ([`sweep`]), as Markdown, as text and as pages of plots.

mod bars;
mod commands;
pub mod layout;
pub mod ls;
mod markdown;
pub mod sweep;

pub use commands::commands;

use crate::plot::{Plot, plot};

/// A picture, and the name of its file.
#[derive(Clone, Debug)]
pub struct Picture {
    /// File name without extension.
    pub name: String,
    /// The picture as SVG.
    pub svg: String,
}

/// A plot not drawn yet, and the name of its file.
struct Named {
    name: String,
    plot: Plot,
}

fn drawn(plots: Vec<Named>) -> Vec<Picture> {
    plots.into_iter().map(|Named { name, plot: of }| Picture { name, svg: plot(&of) }).collect()
}
