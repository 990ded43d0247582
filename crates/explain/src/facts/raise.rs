//! Changes that raise a limit named by the number behind the rate, and their largest possible gain.

/// A change that raises a limit.
#[derive(Clone, Debug)]
pub(crate) struct Raise {
    /// Its id, like any change's.
    pub id: &'static str,
    /// The change in words.
    pub change: String,
    /// How to make it, if nothing is known of the program.
    pub how: &'static str,
    /// Largest possible gain in wall time, in nanoseconds.
    pub gained_ns: f64,
}

impl Raise {
    /// A change without a bound from charges; the replay limits its gain.
    pub(crate) fn all(id: &'static str, change: impl Into<String>, how: &'static str) -> Raise {
        Raise { id, change: change.into(), how, gained_ns: f64::MAX }
    }

    /// Whether the change makes one transaction of many.
    pub(crate) fn is_of_transactions(&self) -> bool {
        self.id == "sync_once" && self.gained_ns == f64::MAX
    }
}
