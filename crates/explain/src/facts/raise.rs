//! What raises a limit that a number behind the rate names, and the most that this gives.

/// A change that raises a limit.
#[derive(Clone, Debug)]
pub(crate) struct Raise {
    /// Its id, as of any change.
    pub id: &'static str,
    /// In words.
    pub change: String,
    /// What makes it, where nothing is known of the program.
    pub how: &'static str,
    /// How much of the wall time it takes off at the most, in nanoseconds.
    pub gained_ns: f64,
}

impl Raise {
    /// Whatever its causes were charged: the replay holds a change to that.
    pub(crate) fn all(id: &'static str, change: impl Into<String>, how: &'static str) -> Raise {
        Raise { id, change: change.into(), how, gained_ns: f64::MAX }
    }

    /// Whether it is one transaction for many.
    pub(crate) fn is_of_transactions(&self) -> bool {
        self.id == "sync_once" && self.gained_ns == f64::MAX
    }
}
