//! Backups of a store's names: one file with every row of the metadata as of one moment.
//!
//! | module | content |
//! |---|---|
//! | `file` | the format |
//! | `take` | taking one from a running service |
//! | `restore` | making the database anew from one |
//! | `since` | what was made since, and where its datafiles are |
//! | `check` | checking a running service, a stopped one, or a backup |

mod check;
mod file;
mod restore;
mod since;
mod take;

pub use self::check::{Source, check};
pub use self::file::{Backup, Header, VERSION, Writer};
pub use self::restore::{Restore, restore};
pub use self::since::{Made, Since};
pub use self::take::{Taken, take};
pub use thalweg_metadata::backup::{Checked, Finding, Restored};
