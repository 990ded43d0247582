//! Parameters: a name and its values, from `NAME=LIST` or `NAME=FIRST..LAST:STEP`.
//!
//! A value written with `Ki`, `Mi` or `Gi` is passed to commands as a plain number of bytes, which every program understands; results show
//! it as written. Anything that is not a number is a word, and is passed unchanged.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use thalweg_base::numbers;

/// Maximum number of values of a parameter.
const MOST_VALUES: usize = 10_000;

/// A parameter and its values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name in templates.
    pub name: String,
    /// Its values, in the order given.
    pub values: Vec<Value>,
}

/// A value of a parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Value {
    /// The value in results.
    pub label: String,
    /// The value in commands.
    pub word: String,
    /// The value as a number, if it is one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub number: Option<f64>,
    /// Replacement for a word that is exactly `{NAME}`, if not [`Value::word`]: several words (a flag and its value), or none (the flag is
    /// left out).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub words: Option<Vec<String>>,
}

/// Whether this is a valid name of a parameter.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

impl Parameter {
    /// Parses `NAME=1,2,4`, `NAME=64Ki..16Mi:x4` (times 4) or `NAME=1..10:+3` (plus 3).
    ///
    /// # Errors
    /// The text is invalid; the error says what was expected.
    pub fn parse(text: &str) -> Result<Parameter> {
        let wrong = |problem: String| Error::Choice(format!("--vary {text}: {problem}"));
        let (name, list) =
            text.split_once('=').ok_or_else(|| wrong("expected NAME=VALUES, like streams=1,2,4 or block=64Ki..16Mi:x4".into()))?;
        if !is_name(name) {
            return Err(wrong(format!("`{name}` is not a valid name: expected letters, digits, _ and -, starting with a letter")));
        }
        if name == "run" {
            return Err(wrong("`run` is reserved for the number of the run; give the parameter another name".into()));
        }
        let mut values: Vec<Value> = Vec::new();
        for part in list.split(',') {
            let more = match part.split_once("..") {
                Some((first, rest)) if !first.is_empty() => range(first, rest).map_err(wrong)?,
                _ if part.is_empty() => return Err(wrong("has an empty value".into())),
                _ => vec![Value::of(part)],
            };
            values.extend(more);
            if values.len() > MOST_VALUES {
                return Err(wrong(format!("has more than {MOST_VALUES} values")));
            }
        }
        let mut labels: Vec<&str> = values.iter().map(|value| value.word.as_str()).collect();
        labels.sort_unstable();
        match labels.windows(2).find(|two| two[0] == two[1]) {
            Some(twice) => Err(wrong(format!("has {} twice", twice[0]))),
            None => Ok(Parameter { name: name.to_owned(), values }),
        }
    }
}

impl Value {
    /// Returns a value that is not a number.
    pub fn word(text: &str) -> Value {
        Value { label: text.to_owned(), word: text.to_owned(), number: None, words: None }
    }

    fn of(text: &str) -> Value {
        if let Some(number) = plain_number(text) {
            return Value { number: Some(number), ..Value::word(text) };
        }
        match numbers::parse_size(text) {
            Ok(bytes) => Value { word: bytes.to_string(), number: Some(bytes as f64), ..Value::word(text) },
            Err(_) => Value::word(text),
        }
    }

    /// Returns a value of a range: a size if its ends are sizes.
    fn counted(number: f64, is_size: bool) -> Value {
        // Steps like 0.1 accumulate rounding errors.
        let rounded = (number * 1e9).round() / 1e9;
        let word = format!("{rounded}");
        Value {
            label: if is_size { numbers::exact_size(rounded as u64) } else { word.clone() },
            number: Some(rounded),
            ..Value::word(&word)
        }
    }
}

/// Parses a finite number written with digits: `inf` and `nan` are words.
pub(super) fn plain_number(text: &str) -> Option<f64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    (digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')).then(|| text.parse().ok()).flatten().filter(|n: &f64| n.is_finite())
}

fn range(first: &str, rest: &str) -> std::result::Result<Vec<Value>, String> {
    let (last, step) = rest.split_once(':').unwrap_or((rest, "+1"));
    let end = |text: &str| match (plain_number(text), numbers::parse_size(text)) {
        (Some(number), _) => Ok((number, false)),
        (None, Ok(bytes)) => Ok((bytes as f64, true)),
        (None, Err(_)) => Err(format!("`{text}` is not a number: expected a range like 1..10:+3 or 64Ki..16Mi:x4")),
    };
    let ((from, a), (to, b)) = (end(first)?, end(last)?);
    let is_size = a || b;
    let (is_factor, size) = match (step.strip_prefix('x'), step.strip_prefix('+')) {
        (Some(factor), _) => (true, end(factor)?.0),
        (None, Some(step)) => (false, end(step)?.0),
        (None, None) => return Err(format!("`{step}` is not a step: expected x and a factor above 1, or + and a step above 0")),
    };
    if from > to {
        return Err(format!("ends ({last}) before it begins ({first})"));
    }
    if if is_factor { size <= 1.0 || from <= 0.0 } else { size <= 0.0 } {
        return Err(format!("`{step}` never gets from {first} to {last}: a factor must be above 1 (and begin above 0), a step above 0"));
    }
    let mut values = Vec::new();
    for n in 0..=MOST_VALUES as i32 {
        let value = if is_factor { from * size.powi(n) } else { from + size * f64::from(n) };
        if value > to * (1.0 + 1e-12) + 1e-12 {
            break;
        }
        values.push(Value::counted(value, is_size));
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> String {
        let parameter = Parameter::parse(text).unwrap();
        parameter
            .values
            .iter()
            .map(|v| if v.label == v.word { v.word.clone() } else { format!("{}={}", v.label, v.word) })
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn lists_and_ranges_are_values_and_sizes_are_bytes_in_commands() {
        assert_eq!(words("streams=1,2,4,8"), "1 2 4 8");
        assert_eq!(words("block=64Ki..4Mi:x4"), "64Ki=65536 256Ki=262144 1Mi=1048576 4Mi=4194304");
        assert_eq!(words("n=1..10:+3"), "1 4 7 10");
        assert_eq!(words("n=1..3"), "1 2 3");
        assert_eq!(words("n=0.1..0.5:+0.2,7"), "0.1 0.3 0.5 7");
        assert_eq!(words("n=1..9:x2"), "1 2 4 8");
        assert_eq!(words("mode=fast,../x,10M"), "fast ../x 10M");
        assert_eq!(Parameter::parse("mode=fast,inf").unwrap().values[1].number, None);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_was_expected() {
        let wrong = |text: &str| Parameter::parse(text).unwrap_err().to_string();
        assert!(wrong("streams").contains("expected NAME=VALUES"));
        assert!(wrong("1a=2").contains("is not a valid name"));
        assert!(wrong("run=1").contains("another name"));
        assert!(wrong("a=1,,2").contains("an empty value"));
        assert!(wrong("a=").contains("an empty value"));
        assert!(wrong("a=1Ki,1024").contains("has 1024 twice"));
        assert!(wrong("a=9..1").contains("before it begins"));
        assert!(wrong("a=1..9:x1").contains("never gets"));
        assert!(wrong("a=0..9:x2").contains("never gets"));
        assert!(wrong("a=1..9:+0").contains("never gets"));
        assert!(wrong("a=1..9:3").contains("is not a step"));
        assert!(wrong("a=1..b").contains("is not a number"));
        assert!(wrong("a=1..999999").contains("more than 10000 values"));
    }
}
