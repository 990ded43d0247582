//! The metadata service, through its client.

mod backup;
mod cut_off;
mod drafts;
mod failover;
mod in_postgresql;
mod link_down;
mod locks;
mod lots;
mod names;
mod names_unusual;
mod process;
mod sizes;
