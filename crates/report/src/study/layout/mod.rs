//! A layout study: what each layout gives every node, as Markdown ([`markdown()`]) and as a page of plots ([`page()`], [`pictures()`]).

mod figures;
mod markdown;
mod page;

pub use markdown::markdown;
pub use page::{page, pictures};
