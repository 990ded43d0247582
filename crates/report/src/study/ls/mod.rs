//! The result of a study of listings, as Markdown ([`markdown()`]) and as a page of plots ([`page()`], [`pictures()`]).

mod figures;
mod markdown;
mod page;

pub use markdown::markdown;
pub use page::{page, pictures};
