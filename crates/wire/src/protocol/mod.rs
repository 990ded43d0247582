//! What the messages say. One enum of requests and one of replies per service; a body is one of them, serialised with
//! postcard. Which service's it is stands in the header ([`crate::transport::Kind`]).

pub(crate) mod checked;
pub mod common;
pub mod credentials;
mod datafiles;
pub mod effects;
pub mod examples;
mod files;
pub mod io;
mod layout_text;
pub mod locks;
pub mod lost;
pub mod lots;
pub mod many;
mod map;
pub mod metadata;
pub mod names;
mod numbers;
pub mod page;
mod settled;
