//! Text in terminal columns: measured, wrapped and cut to fit.
//!
//! Names come from recordings, and so from any source: control characters are replaced, so that a file's name cannot reach the terminal as
//! an escape code.

use unicode_width::UnicodeWidthChar;

fn columns_of(c: char) -> usize {
    c.width().unwrap_or(1)
}

/// Returns the number of columns that the text takes.
pub fn width(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// Returns the text with control characters, and so escape codes and line breaks, replaced.
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c) { '\u{fffd}' } else { c }).collect()
}

/// Cuts the text to at most `columns`, with an ellipsis in the middle: the ends of paths and addresses are more informative.
pub fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(1);
    let front = take(text.chars(), room / 3);
    let back: String = take(text.chars().rev(), room - width(&front)).chars().rev().collect();
    format!("{front}…{back}")
}

/// Cuts the text to at most `columns`, with an ellipsis at the end.
pub fn cut_end(text: &str, columns: usize) -> String {
    if width(text) <= columns { text.to_owned() } else { take(text.chars(), columns.saturating_sub(1)) + "…" }
}

fn take(characters: impl Iterator<Item = char>, columns: usize) -> String {
    let mut used = 0;
    characters
        .take_while(|c| {
            used += columns_of(*c);
            used <= columns
        })
        .collect()
}

/// Returns the text in exactly `columns`: cut, or padded with spaces on the right.
pub fn left(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    let fill = columns.saturating_sub(width(&text));
    text + &" ".repeat(fill)
}

/// Returns the text in at least `columns`, padded with spaces on the left.
pub fn right(text: &str, columns: usize) -> String {
    " ".repeat(columns.saturating_sub(width(text))) + text
}

/// Splits at spaces, keeping a number and its unit together.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let bare = word.trim_end_matches([',', '.', ';', ':', ')']);
        let is_unit = matches!(bare, "s" | "ms" | "µs" | "ns" | "min" | "h" | "%")
            || bare.ends_with("B/s")
            || bare.ends_with("b/s")
            || bare.ends_with("iB");
        match words.last_mut() {
            Some(last) if is_unit && last.trim_start_matches('(').starts_with(|c: char| c.is_ascii_digit()) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// Wraps text to lines of at most `columns`, at spaces but not between a number and its unit. A longer word is broken.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    wrap_hanging(text, columns, 0)
}

/// Wraps text with every line but the first indented by `hang`.
pub fn wrap_hanging(text: &str, columns: usize, hang: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    let room = |lines: &[String]| columns.saturating_sub(if lines.is_empty() { 0 } else { hang }).max(1);
    let indented = |lines: &[String], line: String| if lines.is_empty() { line } else { " ".repeat(hang) + &line };
    for mut word in words(text) {
        if !line.is_empty() {
            if width(&line) + 1 + width(&word) <= room(&lines) {
                line.push(' ');
                line.push_str(&word);
                continue;
            }
            lines.push(indented(&lines, std::mem::take(&mut line)));
        }
        while width(&word) > room(&lines) {
            let head = take(word.chars(), room(&lines));
            let head = if head.is_empty() { word.chars().take(1).collect() } else { head };
            word = word[head.len()..].to_owned();
            lines.push(indented(&lines, head));
        }
        line = word;
    }
    if !line.is_empty() {
        lines.push(indented(&lines, line));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_lose_nothing() {
        let text = "one two three /a/very/long/path/without/a/space four";
        for columns in 1..60 {
            let lines = wrap(text, columns);
            assert!(lines.iter().all(|l| width(l) <= columns), "{lines:?}");
            let squeezed: String = lines.concat().chars().filter(|c| *c != ' ').collect();
            assert_eq!(squeezed, text.replace(' ', ""));
        }
    }

    #[test]
    fn lines_hang_and_fit() {
        assert_eq!(wrap_hanging("one two three four", 7, 2), ["one two", "  three", "  four"]);
        assert_eq!(wrap_hanging("", 7, 2), Vec::<String>::new());
    }

    #[test]
    fn characters_take_the_columns_that_a_terminal_gives_them() {
        assert_eq!(["é", "e\u{301}", "日本", "🦀", "\u{200b}", "…", "µs"].map(width), [1, 1, 4, 2, 0, 1, 2]);
    }

    #[test]
    fn a_number_keeps_its_unit() {
        assert_eq!(wrap("gaps, median 17.5 ms, (3 %) of", 17), ["gaps, median", "17.5 ms, (3 %) of"]);
    }

    #[test]
    fn cutting_keeps_both_ends() {
        assert_eq!(cut("/data/experiment/run-17/big.tar", 16), "/data…17/big.tar");
        assert_eq!(cut("short", 16), "short");
        assert_eq!(width(&left("日本語のファイル", 9)), 9);
        assert_eq!(cut("abc", 0), "…");
    }

    #[test]
    fn a_name_cannot_bring_escape_codes() {
        assert_eq!(clean("a\x1b[31mb\n"), "a\u{fffd}[31mb\u{fffd}");
    }
}
