//! The colours of a profile's classes: related work has related colours, from the network's blue to the disk's green.

use crate::picture::canvas::FAINT;

/// Colours of the built-in classes.
const COLOURS: [(&str, &str); 22] = [
    ("idle", "#E9ECF0"),
    ("netdrv", "#0B3D70"),
    ("irq", "#7A3B3B"),
    ("net", "#0072B2"),
    ("rpc", "#56B4E9"),
    ("copy", "#E69F00"),
    ("fs", "#009E73"),
    ("block", "#00604A"),
    ("mm", "#CC79A7"),
    ("sched", "#8C7A00"),
    ("syscall", "#A9B1BB"),
    ("rest", "#5B6B82"),
    ("libc", "#D55E00"),
    ("program", "#F0D442"),
    ("libraries", "#F2A07B"),
    ("others", "#C3B6D9"),
    ("steal", "#1B2430"),
    ("recorder", "#882255"),
    // Classes of a profile without samples.
    ("user", "#E0B400"),
    ("system", "#3A6EA5"),
    ("hardirq", "#5E2A2A"),
    ("softirq", "#9C5050"),
];

/// Colours of further classes, from a site's own rules.
const OWN: [&str; 4] = ["#44AA99", "#999933", "#AA4466", "#6699CC"];

/// The colour of nodes without a class.
pub(super) const SAYS_NOTHING: &str = "#D8DCE2";

/// Returns the colour of a class.
pub(crate) fn of(class: &str) -> &'static str {
    if let Some((_, colour)) = COLOURS.iter().find(|(name, _)| *name == class) {
        return colour;
    }
    let sum: usize = class.bytes().map(usize::from).sum();
    OWN.get(sum % OWN.len()).copied().unwrap_or(FAINT)
}

/// The colours of recordings side by side.
pub(super) const OF_COLUMNS: [&str; 5] = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#5B6B82"];

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_explain::profile::DEFAULT_RULES;

    #[test]
    fn every_class_that_is_built_in_has_a_colour_of_its_own() {
        let classes = DEFAULT_RULES.lines().filter_map(|line| line.strip_prefix("class ")?.split(':').next());
        for class in classes {
            assert!(COLOURS.iter().any(|(name, _)| *name == class), "{class} has no colour");
        }
        for (at, (_, colour)) in COLOURS.iter().enumerate() {
            assert!(COLOURS[..at].iter().all(|(_, other)| other != colour), "{colour}");
        }
    }
}
