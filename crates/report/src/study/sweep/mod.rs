//! The result of a parameter sweep: text for a terminal ([`text()`]), comparison of two ([`diff()`]), and a page of pictures ([`page()`]).
//! Its own kinds of picture are a heat map of points, and stacked bars of causes or profile classes along a parameter: SVG with tooltips,
//! without scripts.

mod band;
mod diff;
mod heat;
mod page;
mod stacks;
mod text;

pub use diff::diff;
pub use page::page;
pub use text::text;
