//! Many globs matched together: the first line that matches a name.
//!
//! Almost all globs are a name, or a prefix followed by `*`, so names are looked up whole and by each prefix length; only the others are
//! tried individually. Rejected: trying a thousand globs for each function (ten thousand functions, 0.2 s).

use std::collections::HashMap;
use thalweg_base::glob::{self, Reading};

/// Globs, each with the number of its line.
#[derive(Clone, Debug, Default)]
pub(super) struct Globs {
    exact: HashMap<String, usize>,
    beginnings: HashMap<String, usize>,
    /// Lengths of prefixes, ascending.
    lengths: Vec<usize>,
    others: Vec<(String, usize)>,
}

impl Globs {
    /// Adds a glob. Lines come in ascending order, so the first with a name keeps it.
    pub(super) fn add(&mut self, glob: &str, line: usize) {
        let is_plain = |text: &str| !text.contains(['*', '?']);
        if is_plain(glob) {
            self.exact.entry(glob.to_owned()).or_insert(line);
            return;
        }
        match glob.strip_suffix('*').filter(|beginning| is_plain(beginning)) {
            Some(beginning) => {
                self.beginnings.entry(beginning.to_owned()).or_insert(line);
                if let Err(at) = self.lengths.binary_search(&beginning.len()) {
                    self.lengths.insert(at, beginning.len());
                }
            }
            None => self.others.push((glob.to_owned(), line)),
        }
    }

    /// The first line that matches the name.
    pub(super) fn first(&self, name: &str) -> Option<usize> {
        let exact = self.exact.get(name).copied();
        let beginnings = self.lengths.iter().map_while(|&length| (length <= name.len()).then(|| name.get(..length))).flatten();
        let beginnings = beginnings.filter_map(|beginning| self.beginnings.get(beginning).copied());
        let others = self.others.iter().filter(|(glob, _)| matches(glob, name)).map(|(_, line)| *line);
        exact.into_iter().chain(beginnings).chain(others).min()
    }
}

/// Whether a glob (`*` any characters, `?` one) matches this name.
pub(super) fn matches(glob: &str, name: &str) -> bool {
    glob::matches(glob.as_bytes(), name.as_bytes(), Reading { only_wildcards: true, ..Reading::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_line_wins(globs in proptest::collection::vec("[ab]{0,3}[ab*?]?[ab]?\\*?", 1..12), name in "[ab]{0,6}") {
            let mut table = Globs::default();
            globs.iter().enumerate().for_each(|(line, glob)| table.add(glob, line));
            prop_assert_eq!(table.first(&name), globs.iter().position(|glob| matches(glob, &name)));
        }
    }
}
