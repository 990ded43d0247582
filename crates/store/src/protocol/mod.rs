//! What the messages say. One enum of requests and one of replies per service; a body is one of them, serialised with
//! postcard. Which service's it is stands in the header ([`crate::wire::Kind`]).

pub(crate) mod checked;
pub mod common;
mod drafts;
pub mod io;
mod layout_text;
pub mod locks;
pub mod many;
pub mod metadata;
mod numbers;
mod packed;
pub(crate) mod page;
mod settled;
