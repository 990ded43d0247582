//! A parameter sweep: its text for a terminal ([`text()`]), two of them beside each other ([`diff()`]), and a page of pictures ([`page()`]). The
//! pictures that no other page needs are a heat map of points, and the causes or the classes of a profile along a parameter as
//! stacked bars: SVG, no script; a cell says more when it is pointed at.

mod band;
mod diff;
mod heat;
mod page;
mod stacks;
mod text;

pub use diff::diff;
pub use page::page;
pub use text::text;
