//! The words of the line being typed, as a shell hands them over, and candidates as the shell takes them.

use clap_complete::engine::CompletionCandidate;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The line up to the cursor, which bash's function sets.
const LINE: &str = "_THALWEG_LINE";
/// What bash will replace by a candidate: the end of the last word, after the last of its word breaks (among them `:` and `=`).
const REPLACED: &str = "_THALWEG_REPLACED";
/// Number of the word with the cursor, which zsh's function sets.
const INDEX: &str = "_THALWEG_INDEX";

/// A line that is being typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Typed {
    /// Its words up to the cursor, without quotes; the first is the command.
    pub(super) words: Vec<OsString>,
    /// Number of the word that is to be completed.
    pub(super) index: usize,
    style: Style,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Style {
    /// Bash takes the rest of a word, quoted. `kept`: number of bytes at the start of the word that stay.
    Bash { kept: usize, quoted: bool },
    /// Zsh takes whole words and quotes them itself; a tab stands before the help.
    Zsh,
}

/// Returns the line that bash's function has put into the environment.
pub(super) fn of_bash() -> Option<Typed> {
    let (line, replaced) = (std::env::var_os(LINE)?, std::env::var_os(REPLACED)?);
    Some(typed_in_bash(line.as_bytes(), replaced.as_bytes()))
}

/// Returns the line of zsh's function: `--`, and the words.
pub(super) fn of_zsh(arguments: impl Iterator<Item = OsString>) -> Option<Typed> {
    let words: Vec<OsString> = arguments.skip_while(|word| word != "--").skip(1).collect();
    let index = std::env::var(INDEX).ok()?.parse().ok().filter(|index| *index < words.len())?;
    Some(Typed { words, index, style: Style::Zsh })
}

fn typed_in_bash(line: &[u8], replaced: &[u8]) -> Typed {
    let (words, open) = split(line);
    let index = words.len() - 1;
    let (last, _) = split(replaced);
    let last = last.last().map_or(0, Vec::len);
    let kept = words[index].len().saturating_sub(last);
    Typed { words: words.into_iter().map(OsString::from_vec).collect(), index, style: Style::Bash { kept, quoted: open } }
}

/// Splits a line into words as a shell does, without expansions. Returns whether a quote is still open at its end. The last word is
/// what the cursor is in: empty after a space.
fn split(line: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let (mut words, mut word, mut quote) = (Vec::new(), Vec::new(), None);
    let mut bytes = line.iter().copied().peekable();
    let mut begun = false;
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (Some(b'"') | None, b'\\') => word.extend(bytes.next()),
            (Some(_), _) => word.push(byte),
            (None, b'\'' | b'"') => (quote, begun) = (Some(byte), true),
            (None, b' ' | b'\t' | b'\n') if word.is_empty() && !begun => {}
            (None, b' ' | b'\t' | b'\n') => {
                words.push(std::mem::take(&mut word));
                begun = false;
            }
            (None, _) => word.push(byte),
        }
    }
    words.push(word);
    (words, quote.is_some())
}

impl Typed {
    /// Appends a candidate as a line.
    pub(super) fn write(&self, candidate: &CompletionCandidate, lines: &mut Vec<u8>) {
        let value = candidate.get_value().as_bytes();
        match self.style {
            Style::Bash { kept, quoted } => {
                for &byte in &value[kept.min(value.len())..] {
                    if !quoted && !is_plain(byte) {
                        lines.push(b'\\');
                    }
                    lines.push(byte);
                }
            }
            Style::Zsh => {
                lines.extend(value);
                if let Some(help) = candidate.get_help() {
                    lines.push(b'\t');
                    lines.extend(help.to_string().lines().next().unwrap_or_default().bytes());
                }
            }
        }
        lines.push(b'\n');
    }
}

/// Returns those of the candidates that begin with what has been typed.
pub(super) fn starting(candidates: impl Iterator<Item = OsString>, current: &OsStr) -> Vec<CompletionCandidate> {
    candidates.filter(|candidate| candidate.as_bytes().starts_with(current.as_bytes())).map(CompletionCandidate::new).collect()
}

/// Whether a byte means itself in a word of bash.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"-_./:=@%+,^".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(line: &str, replaced: &str, candidate: &str) -> String {
        let mut out = Vec::new();
        typed_in_bash(line.as_bytes(), replaced.as_bytes()).write(&CompletionCandidate::new(candidate), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn bash_gets_what_follows_its_last_word_break() {
        assert_eq!(lines("thalweg cp thal:/a", "/a", "thal:/ab/"), "/ab/\n");
        assert_eq!(lines("thalweg cp thal:", "", "thal:/ab"), "/ab\n");
        assert_eq!(lines("thalweg ls --store=thal://h:1", "1", "--store=thal://h:12"), "12\n");
        assert_eq!(lines("thalweg exp", "exp", "explain"), "explain\n");
    }

    #[test]
    fn names_are_quoted_unless_a_quote_is_open() {
        assert_eq!(lines("thalweg cp a", "a", "a b"), "a\\ b\n");
        assert_eq!(lines("thalweg cp 'a", "a", "a b"), "a b\n");
        assert_eq!(lines("thalweg cp a\\ ", "a\\ ", "a b$"), "a\\ b\\$\n");
    }

    #[test]
    fn a_line_is_split_as_a_shell_does() {
        let words = |line: &str| split(line.as_bytes()).0.into_iter().map(|word| String::from_utf8(word).unwrap()).collect::<Vec<_>>();
        assert_eq!(words("thalweg  ls "), ["thalweg", "ls", ""]);
        assert_eq!(words("a 'b c' \"d\\\"\" e\\ f"), ["a", "b c", "d\"", "e f"]);
        assert_eq!(words("a '' "), ["a", "", ""]);
    }
}
