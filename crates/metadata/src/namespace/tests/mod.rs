//! The namespace against a model, and rule by rule.

mod damage;
mod in_postgresql;
mod lots;
mod model;
mod rules;
