//! Recording and explaining commands, copies, servers and RPCs.

mod both_ends;
mod captures;
mod command;
mod confined;
mod copies;
mod drawn;
mod emulated;
mod hard;
mod killed;
mod methods;
mod mounted;
mod names;
mod on_wire;
mod profile;
mod profile_counted;
mod profile_own;
mod refused;
mod rpcstat;
mod served;
mod shared;
mod unprivileged;
