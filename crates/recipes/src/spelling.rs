//! How a flag and its value stand in a command.
//!
//! | in a recipe | in a command |
//! |---|---|
//! | `--streams` | `--streams 4`: the value is the next word |
//! | `bs=`, `--transfers=` | `bs=64Ki`: in one word, after the sign |
//! | `-p#` | `-p4`: in one word, a number |
//! | `-X nrequests=` | `-X nrequests=64`: two words |

/// A way to write a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spelling<'a> {
    /// The value is the next word.
    Next(&'a str),
    /// The value follows in the same word; `true`: only a number does.
    Joined(&'a str, bool),
    /// A word, and then another one with the value behind it.
    After(&'a str, &'a str),
}

/// Where a command has a parameter: its words from `at` on, so many, and the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// The first of them.
    pub at: usize,
    /// How many.
    pub words: usize,
    /// The value.
    pub value: String,
}

impl<'a> Spelling<'a> {
    /// As a recipe writes it.
    pub fn of(text: &'a str) -> Spelling<'a> {
        match (text.split_once(' '), text.strip_suffix('#')) {
            (Some((first, second)), _) => Spelling::After(first, second),
            (None, Some(prefix)) => Spelling::Joined(prefix, true),
            (None, None) if text.ends_with('=') => Spelling::Joined(text, false),
            (None, None) => Spelling::Next(text),
        }
    }

    /// Where it stands in these words, if it does.
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

    /// The words of a value.
    pub fn words(&self, value: &str) -> Vec<String> {
        match self {
            Spelling::Next(flag) => vec![(*flag).to_owned(), value.to_owned()],
            Spelling::Joined(prefix, _) => vec![format!("{prefix}{value}")],
            Spelling::After(first, second) => vec![(*first).to_owned(), format!("{second}{value}")],
        }
    }
}

/// Where an argument of an address's query stands: `readahead=` in `nfs://host/file?readahead=4096`, or where it would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InAddress {
    /// The bytes of the word that it takes, its sign included; none where it is not there.
    pub range: std::ops::Range<usize>,
    /// `?` or `&`.
    pub sign: char,
    /// Its value, where it is there.
    pub value: Option<String>,
}

impl InAddress {
    /// In this word, of the argument that begins so.
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

    /// The word with something else there: a flag with its value.
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
