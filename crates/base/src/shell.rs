//! Quoting of commands for a shell, to be read and copied.

/// Quotes a word if a shell would interpret it otherwise.
pub fn word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// Quotes a command as one line.
pub fn line(command: &[String]) -> String {
    command.iter().map(|one| word(one)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_split_or_read_them() {
        let words = ["dd", "if=a b", "it's", "", "$HOME", "bs=1M"].map(str::to_owned);
        assert_eq!(line(&words), r"dd 'if=a b' 'it'\''s' '' '$HOME' bs=1M");
    }
}
