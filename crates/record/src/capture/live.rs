//! Packets from an interface.
/// Placeholder
#[derive(Debug)]
pub struct Live;
/// Placeholder
#[derive(Debug)]
pub struct LiveOptions;
