//! What is in a recording, looked at once as it goes by, latest first: who is who, the spans that the walk may still want, and what is
//! gathered of all of them.

pub mod asking;
pub mod cast;
pub mod channels;
pub mod curve;
pub mod feed;
pub mod index;
pub mod observation;
pub mod overlap;
pub mod quantile;
pub mod ranks;
pub mod sample;
pub mod wire;
