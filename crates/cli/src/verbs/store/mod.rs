//! Verbs on names and data of a store.

pub(super) mod cat;
pub(super) mod cp;
pub(super) mod credential;
pub(super) mod df;
pub(super) mod du;
pub(super) mod find;
pub(super) mod layout;
pub(super) mod lot;
pub(super) mod ls;
pub(super) mod metadata;
pub(super) mod mkdir;
pub(super) mod mv;
pub(super) mod rm;
pub(super) mod scrub;
pub(super) mod session;
pub(super) mod stat;
mod walking;
