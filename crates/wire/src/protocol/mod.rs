//! The messages' contents. Each service has one enum of requests and one of replies; a body is one of them, serialised with
//! postcard. The header names the service ([`crate::transport::Kind`]).

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
pub mod scrub;
mod settled;
