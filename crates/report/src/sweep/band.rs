//! What a bar is divided into, or a cell is coloured by: a cause of wall time, or a class of processors' time.

use crate::picture::palette::{cause_style, is_hatched};
use crate::profile::colour_of_class;
use thalweg_explain::Cause;

/// A part of a bar.
pub trait Band: Clone + PartialEq {
    /// In two letters or so, for inside it.
    fn letters(&self) -> String;
    /// In words, for the legend.
    fn words(&self) -> String;
    /// Its colour.
    fn colour(&self) -> &'static str;
    /// Whether it is hatched too.
    fn is_hatched(&self) -> bool {
        false
    }
    /// Where it stands among others: equal in all bars, so that a colour can be followed.
    fn rank(&self) -> (usize, String);
}

impl Band for Cause {
    /// A cause in two letters: at which end, and what. Every cause has its own (a test holds that).
    fn letters(&self) -> String {
        let name = self.name();
        let Some((end, what)) = name.split_once('.') else { return if name == "recorder" { "re".into() } else { "?".into() } };
        let letter = match what {
            "metadata" => 'D',
            "runqueue" => 'Q',
            "loss" => 'X',
            "rwnd" => 'W',
            "sync" => 'F',
            "unknown" => '?',
            other => other.chars().next().unwrap_or('?').to_ascii_uppercase(),
        };
        format!("{}{letter}", &end[..1])
    }

    fn words(&self) -> String {
        self.name().to_owned()
    }

    fn colour(&self) -> &'static str {
        cause_style(*self).colour
    }

    fn is_hatched(&self) -> bool {
        is_hatched(*self)
    }

    fn rank(&self) -> (usize, String) {
        (0, self.name().to_owned())
    }
}

/// A class of a profile, as `thalweg profile` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileClass {
    /// Its name in the rules.
    pub name: String,
    /// What people call it.
    pub title: String,
    /// Where it stands in the profile's table.
    pub place: usize,
}

impl Band for ProfileClass {
    fn letters(&self) -> String {
        self.name.clone()
    }

    fn words(&self) -> String {
        self.title.clone()
    }

    fn colour(&self) -> &'static str {
        colour_of_class(&self.name)
    }

    fn rank(&self) -> (usize, String) {
        (self.place, self.name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_letters_of_its_own() {
        let mut codes: Vec<String> = Cause::ALL.iter().map(Band::letters).collect();
        codes.sort();
        let all = codes.len();
        codes.dedup();
        assert_eq!(codes.len(), all, "{codes:?}");
    }
}
