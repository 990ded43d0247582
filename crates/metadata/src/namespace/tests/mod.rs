//! The namespace against a model, and rule by rule.

mod damage;
#[cfg(feature = "postgresql")]
mod in_postgresql;
mod lots;
mod model;
mod rules;
