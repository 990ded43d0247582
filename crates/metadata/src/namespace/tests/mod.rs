//! The namespace against a model, and individual rules.

mod damage;
#[cfg(feature = "postgresql")]
mod in_postgresql;
mod lots;
mod model;
mod rules;
