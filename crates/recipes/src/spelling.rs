//! The syntax of a flag and its value in a command.
//!
//! | in a recipe | in a command |
//! |---|---|
//! | `--streams` | `--streams 4`: the value is the next word |
//! | `bs=`, `--transfers=` | `bs=64Ki`: in one word, after `=` |
//! | `-p#` | `-p4`: in one word, a number |
//! | `-X nrequests=` | `-X nrequests=64`: two words |

/// A syntax of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spelling<'a> {
    /// The value is the next word.
    Next(&'a str),
    /// The value follows in the same word; `true`: it must be a number.
    Joined(&'a str, bool),
    /// A word, then another one that ends in the value.
    After(&'a str, &'a str),
}

/// An occurrence of a parameter in a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// Index of its first word.
    pub at: usize,
    /// Number of its words.
    pub words: usize,
    /// The value.
    pub value: String,
}

impl<'a> Spelling<'a> {
    /// Parses the syntax used in a recipe.
    pub fn of(text: &'a str) -> Spelling<'a> {
        match (text.split_once(' '), text.strip_suffix('#')) {
            (Some((first, second)), _) => Spelling::After(first, second),
            (None, Some(prefix)) => Spelling::Joined(prefix, true),
            (None, None) if text.ends_with('=') => Spelling::Joined(text, false),
            (None, None) => Spelling::Next(text),
        }
    }

    /// Finds it in these words.
    pub fn find(&self, words: &[String]) -> Option<Occurrence> {
        (0..words.len()).find_map(|at| {
            let next = words.get(at + 1);
            match self {
                Spelling::Next(flag) => (words[at] == *flag).then(|| Some(Occurrence { at, words: 2, value: next?.clone() }))?,
                Spelling::Joined(prefix, is_number) => {
                    let value = words[at].strip_prefix(prefix).filter(|value| !value.is_empty())?;
                    let fits = !is_number || value.starts_with(|c: char| c.is_ascii_digit());
                    fits.then(|| Occurrence { at, words: 1, value: value.to_owned() })
                }
                Spelling::After(first, second) => {
                    let value = next.filter(|_| words[at] == *first)?.strip_prefix(second)?;
                    Some(Occurrence { at, words: 2, value: value.to_owned() })
                }
            }
        })
    }

    /// Returns the words that set a value.
    pub fn words(&self, value: &str) -> Vec<String> {
        match self {
            Spelling::Next(flag) => vec![(*flag).to_owned(), value.to_owned()],
            Spelling::Joined(prefix, _) => vec![format!("{prefix}{value}")],
            Spelling::After(first, second) => vec![(*first).to_owned(), format!("{second}{value}")],
        }
    }
}

/// The position of a query argument in a URL: `readahead=` in `nfs://host/file?readahead=4096`, or where it would be inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InAddress {
    /// Its byte range in the word, including its `?` or `&`; empty if absent.
    pub range: std::ops::Range<usize>,
    /// `?` or `&`.
    pub sign: char,
    /// Its value, if present.
    pub value: Option<String>,
}

impl InAddress {
    /// Finds the argument with this prefix in a word.
    pub fn of(word: &str, flag: &str) -> InAddress {
        let query_at = word.find('?');
        let there = query_at.and_then(|query| {
            let pairs = &word[query..];
            let start = pairs.find(&format!("?{flag}")).or_else(|| pairs.find(&format!("&{flag}")))? + query;
            let end = word[start + 1..].find('&').map_or(word.len(), |end| start + 1 + end);
            Some((start, end))
        });
        match there {
            Some((start, end)) => InAddress {
                range: start..end,
                sign: if word[start..].starts_with('?') { '?' } else { '&' },
                value: Some(word[start + 1 + flag.len()..end].to_owned()),
            },
            None => InAddress { range: word.len()..word.len(), sign: if query_at.is_some() { '&' } else { '?' }, value: None },
        }
    }

    /// Returns the word with this argument, including its value, at the position.
    pub fn with(&self, word: &str, argument: &str) -> String {
        format!("{}{}{argument}{}", &word[..self.range.start], self.sign, &word[self.range.end..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_spelling_is_found_and_written_the_same_way() {
        let cases = [("--streams", "x --streams 4 y"), ("bs=", "x bs=4 y"), ("-p#", "x -p4 y"), ("-X nrequests=", "x -X nrequests=4 y")];
        for (spelling, line) in cases {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let spelling = Spelling::of(spelling);
            let found = spelling.find(&words).unwrap();
            assert_eq!((found.at, found.value.as_str()), (1, "4"), "{line}");
            assert_eq!(spelling.words("4"), words[1..1 + found.words], "{line}");
        }
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(Spelling::of("-p#").find(&words("-pedantic -p")), None);
        assert_eq!(Spelling::of("--streams").find(&words("x --streams")), None);
    }
}
