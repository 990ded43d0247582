//! Which words of a command an answer is about: words the answer names (`--limit-rate 8M`), and words whose value is one of its figures:
//! `bs=512` with "512 bytes", `count=200` with "200 syncs", `0.1` with "100 ms each".
//!
//! No program's options are known here. A coincidental match costs a few columns, and says nothing false.

use crate::limits::summary as limits;
use thalweg_base::numbers::{parse_duration, parse_rate, parse_size};

/// The words and figures of an answer.
pub(crate) struct AnswerTerms {
    words: Vec<String>,
    figures: Vec<Figure>,
}

/// A figure, in the unit of its quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    /// A count.
    Count(f64),
    /// Bytes, or bytes a second.
    Bytes(f64),
    /// Seconds.
    Time(f64),
}

/// The figure that a number and its unit stand for in an answer.
fn figure(number: f64, unit: &str) -> Option<Figure> {
    let said = format!("{number} {unit}");
    match unit {
        "%" => None,
        "bytes" => Some(Figure::Bytes(number)),
        "ns" | "µs" | "ms" | "s" => parse_duration(&said).ok().map(|time| Figure::Time(time.as_secs_f64())),
        rate if rate.ends_with("/s") => parse_rate(&said).ok().map(Figure::Bytes),
        size if size.ends_with('B') => parse_size(&said).ok().map(|bytes| Figure::Bytes(bytes as f64)),
        _ => Some(Figure::Count(number)),
    }
}

/// The figures that a value of a command may stand for: which unit a program uses is not known.
fn values(text: &str) -> Vec<Figure> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let Ok(number) = text[..digits].parse::<f64>() else { return Vec::new() };
    let unit = text[digits..].to_ascii_lowercase();
    // Binary, decimal, and bits.
    let bytes = |thousands: i32| {
        let (binary, decimal) = (number * (1_u64 << (10 * thousands)) as f64, number * f64::powi(1e3, thousands));
        vec![Figure::Bytes(binary), Figure::Bytes(decimal), Figure::Bytes(decimal / f64::from(u8::BITS))]
    };
    match unit.trim_end_matches("/s").trim_end_matches("ps") {
        // Every answer contains a 1.
        "" if number >= 2.0 => vec![Figure::Count(number), Figure::Bytes(number), Figure::Time(number)],
        "" | "s" if number > 0.0 => vec![Figure::Time(number)],
        "ms" => vec![Figure::Time(number / 1e3)],
        "us" => vec![Figure::Time(number / 1e6)],
        "k" | "kb" | "kib" | "kbit" => bytes(1),
        "m" | "mb" | "mib" | "mbit" => bytes(2),
        "g" | "gb" | "gib" | "gbit" => bytes(3),
        _ => Vec::new(),
    }
}

impl Figure {
    /// Whether a command's value matches a figure of the answer, as the answer rounds it.
    fn is(self, said: Figure) -> bool {
        let near = |a: f64, b: f64| (a - b).abs() <= b * limits::AS_SAID;
        match (self, said) {
            (Figure::Count(a), Figure::Count(b)) => a == b,
            (Figure::Bytes(a), Figure::Bytes(b)) | (Figure::Time(a), Figure::Time(b)) => near(a, b),
            _ => false,
        }
    }
}

impl AnswerTerms {
    /// Reads the words and figures of a text.
    pub(crate) fn of(text: &str) -> AnswerTerms {
        let words: Vec<String> = text.split_whitespace().map(|word| bare(word).to_owned()).collect();
        let number = |word: &str| word.replace(',', "").parse::<f64>().ok();
        let pairs = words.iter().zip(words.iter().skip(1).map(String::as_str).chain([""]));
        let figures = pairs.filter_map(|(word, unit)| figure(number(word)?, unit)).collect();
        AnswerTerms { words, figures }
    }

    /// Whether the answer is about this word of a command.
    pub(crate) fn has(&self, word: &str) -> bool {
        self.names(word) || self.has_value(word, |_| true)
    }

    /// Whether the answer names this option or setting.
    fn names(&self, word: &str) -> bool {
        let is_option = word.len() > 1 && word.starts_with('-');
        (is_option || word.contains('=')) && self.words.iter().any(|said| said == word)
    }

    /// Whether the value in a word is one of the answer's figures.
    fn has_value(&self, word: &str, is_meant: impl Fn(Figure) -> bool) -> bool {
        let own = value(word).map(values).unwrap_or_default();
        own.into_iter().filter(|own| is_meant(*own)).any(|own| self.figures.iter().any(|said| own.is(*said)))
    }

    /// The part of a script that the answer is about, with the word before it: the first part it names, else the first with a size or time
    /// of it, else with a count.
    pub(crate) fn part_of<'t>(&self, script: &'t str) -> Option<&'t str> {
        let words: Vec<&str> = script.split_whitespace().collect();
        let first = |is_meant: &dyn Fn(&str) -> bool| words.iter().position(|word| is_meant(bare(word)));
        let is_measure = |figure: Figure| !matches!(figure, Figure::Count(_));
        let at = first(&|word| self.names(word))
            .or_else(|| first(&|word| self.has_value(word, is_measure)))
            .or_else(|| first(&|word| self.has(word)))?;
        let is_whole = |at: usize| words[at].starts_with('-') || words[at].contains('=');
        let from = if is_whole(at) { at } else { at.saturating_sub(1) };
        let has_value = words[at].starts_with('-') && !words[at].contains('=');
        let value = words.get(at + 1).filter(|next| has_value && next.starts_with(|c: char| c.is_ascii_digit()));
        let place = |word: &str| word.as_ptr() as usize - script.as_ptr() as usize;
        let last = bare(value.unwrap_or(&words[at]));
        Some(&script[place(words[from])..place(last) + last.len()])
    }
}

/// A word without the punctuation around it.
fn bare(word: &str) -> &str {
    word.trim_start_matches('(').trim_end_matches(['.', ',', ';', ':', ')'])
}

/// The value in a word: after its `=`, after a letter (`-P4`), or the whole word.
fn value(word: &str) -> Option<&str> {
    let value = match (word.split_once('='), word.strip_prefix('-')) {
        (Some((_, value)), _) => value,
        (None, Some(rest)) if !rest.starts_with('-') => rest.get(1..)?,
        (None, Some(_)) => return None,
        (None, None) => word,
    };
    value.starts_with(|c: char| c.is_ascii_digit()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_whose_value_is_a_figure_of_the_answer_is_what_it_is_about() {
        let said = AnswerTerms::of(
            "Writes of 512 bytes: 20,000 calls × 2.31 µs; at 7.95 MiB/s, 100 ms each. 200 syncs (--limit-rate 8M), 30 % busy.",
        );
        assert!(
            ["bs=512", "512", "count=20000", "--rate=8M", "8m", "0.1", "100ms", "-n200", "--limit-rate"]
                .into_iter()
                .all(|word| said.has(word))
        );
        assert!(!["bs=1M", "30", "1", "-r", "--limit", "f512", "10.0.0.2:512", "count=2000", "-P4"].into_iter().any(|word| said.has(word)));
        assert_eq!(said.part_of("for i in 1 2; do curl -s --limit-rate 8M -o f http://h/f; done"), Some("--limit-rate 8M"));
        assert_eq!(said.part_of("dd if=a of=b bs=512 count=9; sync"), Some("bs=512"));
        assert_eq!(said.part_of("for n in $(seq 200); do ls; sleep 0.1; done"), Some("sleep 0.1"));
        assert_eq!(said.part_of("cp a b"), None);
    }
}
