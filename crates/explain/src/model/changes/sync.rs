//! Without waiting for stable storage after each flow buffer.

use super::Proposal;
use crate::model::copy::{Copy, Cost, Costs};

pub(super) fn propose(copy: &Copy) -> Vec<Proposal> {
    if copy.far.sync == Cost::default() {
        return Vec::new();
    }
    let far = Costs { sync: Cost::default(), ..copy.far };
    vec![Proposal {
        id: "no_sync",
        change: "not waiting for stable storage after each write".to_owned(),
        copy: Copy { far, ..copy.clone() },
        flags: Vec::new(),
        how: "leave out syncing each write; sync once at the end if the data must survive a power loss".to_owned(),
    }]
}
