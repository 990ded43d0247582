//! Text in columns: how wide it stands on a terminal, wrapped and cut so that it fits.
//!
//! Names come from recordings, and so from anywhere: control characters are replaced, so that a file's
//! name cannot reach the terminal as an escape code.

/// How many columns a character takes: wide East Asian ones and most pictographs take two, joining
/// marks none.
fn columns_of(c: char) -> usize {
    match u32::from(c) {
        0x0300..=0x036f | 0x200b..=0x200f | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60 => 2,
        0x1f300..=0x1faff | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// How many columns the text takes.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// The text with control characters (and with them escape codes and line breaks) replaced.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c) { '\u{fffd}' } else { c }).collect()
}

/// The text in at most `columns`, with an ellipsis in its middle if it had to be cut: the ends of paths
/// and addresses say more than their middle.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(1);
    let front = take(text.chars(), room / 3);
    let back: String = take(text.chars().rev(), room - width(&front)).chars().rev().collect();
    format!("{front}…{back}")
}

/// The text in at most `columns`, with an ellipsis at its end if it had to be cut.
pub(crate) fn cut_end(text: &str, columns: usize) -> String {
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

/// The text in exactly `columns`: cut, or filled with spaces on its right.
pub(crate) fn left(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    let fill = columns.saturating_sub(width(&text));
    text + &" ".repeat(fill)
}

/// The text in at least `columns`, filled with spaces on its left.
pub(crate) fn right(text: &str, columns: usize) -> String {
    " ".repeat(columns.saturating_sub(width(text))) + text
}

/// Words, with a number and its unit as one.
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

/// The text as lines of at most `columns`, broken between words, but not between a number and its unit; a
/// word that is longer is broken.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    for mut word in words(text) {
        if !line.is_empty() {
            if width(&line) + 1 + width(&word) <= columns {
                line.push(' ');
                line.push_str(&word);
                continue;
            }
            lines.push(std::mem::take(&mut line));
        }
        while width(&word) > columns {
            let head = take(word.chars(), columns);
            let head = if head.is_empty() { word.chars().take(1).collect() } else { head };
            word = word[head.len()..].to_owned();
            lines.push(head);
        }
        line = word;
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

/// Rounds `values` to multiples of `unit` so that their sum is the rounded sum: what a table shows then
/// adds up. The largest remainders are rounded up.
pub(crate) fn rounded_to_sum(values: &[f64], unit: f64) -> Vec<f64> {
    let scaled: Vec<f64> = values.iter().map(|v| v / unit).collect();
    let wanted = scaled.iter().sum::<f64>().round();
    let mut whole: Vec<f64> = scaled.iter().map(|v| v.floor()).collect();
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| (scaled[b] - whole[b]).total_cmp(&(scaled[a] - whole[a])));
    let missing = (wanted - whole.iter().sum::<f64>()).max(0.0) as usize;
    for &i in order.iter().take(missing) {
        whole[i] += 1.0;
    }
    whole.iter().map(|v| v * unit).collect()
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

    #[test]
    fn a_rounded_column_adds_up() {
        let thirds = rounded_to_sum(&[1.0 / 3.0; 3], 0.001);
        assert!((thirds.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{thirds:?}");
        assert!(thirds.iter().all(|v| (v - 1.0 / 3.0).abs() < 0.001));
        assert!(rounded_to_sum(&[], 0.1).is_empty());
    }
}
