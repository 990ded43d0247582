//! The names and bytes of a store.

pub mod cat;
pub mod cp;
pub mod df;
pub mod du;
pub mod find;
pub mod layout;
pub mod ls;
pub mod mkdir;
pub mod mv;
pub mod rm;
pub mod stat;
mod walking;
