//! The namespace against a model, and rule by rule.

mod lots;
mod model;
mod rules;
