//! Whether two runs did the same work: by their commands, and by what they moved.

use crate::document::Explanation;
use crate::limits::diff as limits;
use crate::title::base;
use thalweg_base::numbers::{count, size};
use thalweg_recipes::{program, words_of_program};

/// The failure of one of the commands, in words.
pub(super) fn failed(before: &Explanation, after: &Explanation) -> Option<String> {
    let of =
        |which: &str, e: &Explanation| e.summary.ended.as_ref().map(|ended| format!("the {which} run {ended}, so it did not do the work"));
    of("earlier", before).or_else(|| of("later", after))
}

/// Another program, or operands without anything in common, in words.
pub(super) fn different_command(before: &[String], after: &[String]) -> Option<String> {
    let programs = (program(before), program(after));
    if programs.0 != programs.1 {
        return Some(format!("they ran different programs: {} and {}", programs.0, programs.1));
    }
    let (a, b) = (Operands::of(before), Operands::of(after));
    (!a.are_like(&b)).then(|| format!("{} worked on different things: {} and {}", programs.0, a.all.join(" "), b.all.join(" ")))
}

/// A different amount of bytes, or number of transfers, in words.
pub fn different_amount(before: &Explanation, after: &Explanation) -> Option<String> {
    let differ = |a: u64, b: u64| a.abs_diff(b) as f64 > limits::OTHER_AMOUNT * a.max(b) as f64;
    if let (Some(a), Some(b)) = (before.size_bytes, after.size_bytes)
        && a.max(b) > limits::AT_START_BYTES
        && differ(a, b)
    {
        return Some(format!("they moved different amounts: {} and {}", size(a), size(b)));
    }
    let transfers = |e: &Explanation| e.transfers.len() as u64 + e.unlisted_transfers.map_or(0, |rest| rest.count);
    let (a, b) = (transfers(before), transfers(after));
    (a.min(b) >= limits::FEW_TRANSFERS && differ(a, b))
        .then(|| format!("they made different numbers of transfers: {} and {}", count(a), count(b)))
}

/// The operands of a command, paths by their last part: each run may have its own directory.
struct Operands<'a> {
    /// Operands.
    certain: Vec<&'a str>,
    /// Operands and what may be an option's value.
    all: Vec<&'a str>,
}

impl Operands<'_> {
    fn of(command: &[String]) -> Operands<'_> {
        let (mut certain, mut all) = (Vec::new(), Vec::new());
        let mut after_option = false;
        for word in words_of_program(command) {
            let is_option = word.len() > 1 && word.starts_with('-');
            let is_setting = word.split_once('=').is_some_and(|(name, _)| name != "if" && !name.contains(['/', ' ']));
            if !is_option && !is_setting {
                all.push(base(word));
                // A shell's script is its operand.
                if !after_option {
                    certain.push(base(word));
                }
            }
            after_option = is_option && !word.contains('=') && word != "-c" && word != "--";
        }
        Operands { certain, all }
    }

    /// Whether the operands agree: all of them; or one before the last, which is often where a run puts its output.
    fn are_like(&self, other: &Self) -> bool {
        let sources = |all: &[&str]| all[..all.len().saturating_sub(1)].iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let shared = sources(&self.all).iter().any(|word| sources(&other.all).contains(word));
        let one_is_unclear = self.certain.is_empty() != other.certain.is_empty();
        let same = self.certain == other.certain && !self.certain.is_empty();
        same || self.all == other.all || one_is_unclear || shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn are_like(a: &str, b: &str) -> bool {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        Operands::of(&words(a)).are_like(&Operands::of(&words(b)))
    }

    #[test]
    fn operands_are_what_a_command_works_on() {
        for (a, b) in [
            ("cp big /a/copy", "cp big /b/other"),
            ("thalweg cp --record a.thw big thal://h:1/x", "thalweg cp --requests 4 --record b.thw big thal://h:2/y"),
            ("dd if=/tmp/1/a of=b bs=4k oflag=dsync", "dd if=/tmp/2/a of=c bs=1M"),
            ("cp -r src d1", "cp -r src d2"),
            ("curl -o x http://h/big", "curl -o y http://h/big"),
            ("sync", "sync"),
        ] {
            assert!(are_like(a, b), "{a} and {b}");
        }
        for (a, b) in
            [("cp a out", "cp b out"), ("gzip -k a", "gzip -k b"), ("dd if=a of=o", "dd if=b of=o"), ("sh -c true", "sh -c false")]
        {
            assert!(!are_like(a, b), "{a} and {b}");
        }
    }
}
