//! Parses a command's words: the program, its subcommand, and its operands.

use std::path::Path;

/// Shells, which take a command as text.
pub(crate) const SHELLS: &[&str] = &["sh", "bash", "dash", "ash", "ksh", "zsh"];

/// Commands that only start others, with their flags whose value is the next word.
const STARTERS: &[(&str, &[&str])] = &[
    ("chrt", &["-T", "-P", "-D"]),
    ("doas", &["-u", "-C"]),
    ("env", &["-u", "--unset", "-C", "--chdir"]),
    ("ionice", &["-c", "--class", "-n", "--classdata"]),
    ("nice", &["-n", "--adjustment"]),
    ("nohup", &[]),
    ("numactl", &["-i", "-m", "-N", "-C", "-p", "-w"]),
    ("setsid", &[]),
    ("stdbuf", &["-i", "-o", "-e", "--input", "--output", "--error"]),
    ("sudo", &["-u", "--user", "-g", "--group", "-h", "--host", "-p", "--prompt", "-C", "-D", "--chdir", "-T", "-U"]),
    ("taskset", &[]),
    ("time", &["-f", "--format", "-o", "--output"]),
    ("timeout", &["-s", "--signal", "-k", "--kill-after"]),
];

/// Returns the index of the program, after words that only start it; the last candidate if there is no other.
pub fn at_program<W: AsRef<str>>(command: &[W]) -> usize {
    let mut at = 0;
    // (ip netns exec NAME PROGRAM)
    let is_ip = |words: &[W]| file_name(words[0].as_ref()) == "ip" && words[1].as_ref() == "netns" && words[2].as_ref() == "exec";
    if command.len() > 4 && is_ip(command) {
        at = 4;
    }
    while let Some((_, flags)) = command.get(at).and_then(|word| STARTERS.iter().find(|(name, _)| *name == file_name(word.as_ref()))) {
        let mut next = at + 1;
        while let Some(word) = command.get(next).map(AsRef::as_ref) {
            let is_argument = word.starts_with('-') || word.contains('=') || word.starts_with(|c: char| c.is_ascii_digit());
            if !is_argument {
                break;
            }
            next += 1 + usize::from(flags.contains(&word));
        }
        if next >= command.len() {
            break;
        }
        at = next;
    }
    at
}

/// Returns the program's name, skipping starters and their arguments; empty for an empty command.
pub fn program<W: AsRef<str>>(command: &[W]) -> &str {
    command.get(at_program(command)).map_or("", |word| file_name(word.as_ref()))
}

/// Returns the words after the program's name.
pub fn words_of_program(command: &[String]) -> &[String] {
    command.get(at_program(command) + 1..).unwrap_or_default()
}

fn file_name(word: &str) -> &str {
    Path::new(word).file_name().and_then(|name| name.to_str()).unwrap_or(word)
}

/// Returns the indexes of operands: words after the program that are neither flags nor values of flags. `takes_value`: flags whose value is
/// the next word.
pub(crate) fn operands(command: &[String], takes_value: &[String]) -> Vec<usize> {
    let (mut found, mut only_operands) = (Vec::new(), false);
    let mut at = at_program(command) + 1;
    while let Some(word) = command.get(at) {
        match () {
            () if only_operands || !word.starts_with('-') || word == "-" => found.push(at),
            () if word == "--" => only_operands = true,
            () => at += usize::from(takes_value.contains(word)),
        }
        at += 1;
    }
    found
}

/// Whether a command's word matches a recipe's word: it has it as a prefix (`count=`), contains the letter (`-z` in `-avz`), or has the
/// item in its list (`conv=sync` in `conv=notrunc,sync`); likewise for query arguments in a URL.
pub(crate) fn is_meant(word: &str, meant: &str) -> bool {
    if is_letter(meant) && is_bundle(word) {
        return word[1..].contains(&meant[1..]);
    }
    let list = word.split_once('=').zip(meant.split_once('='));
    if let Some(((name, items), (wanted, item))) = list
        && name == wanted
        && !item.is_empty()
        && items.split(',').any(|one| one.starts_with(item))
    {
        return true;
    }
    word.starts_with(meant) || word.split_once('?').is_some_and(|(_, query)| query.split('&').any(|argument| argument.starts_with(meant)))
}

/// Adds the dash to a bundle of flags without one, like tar's `czf NAME`; the letter that takes a value is moved to the end. `None` if
/// several letters take values.
pub(crate) fn with_dash(command: &[String]) -> Option<Vec<String>> {
    /// Letters of tar that take a value.
    const TAKE_VALUE: &str = "bCfFgHIKLNTVX";
    let (mut words, at) = (command.to_vec(), at_program(command) + 1);
    let Some(bundle) = words.get(at).filter(|word| !word.starts_with('-')) else { return Some(words) };
    let (valued, plain): (String, String) = bundle.chars().partition(|c| TAKE_VALUE.contains(*c));
    if valued.len() > 1 || !bundle.chars().all(|c| c.is_ascii_alphabetic()) {
        return None;
    }
    words[at] = format!("-{plain}{valued}");
    Some(words)
}

/// Whether a word is a one-letter flag: `-z`.
pub(crate) fn is_letter(word: &str) -> bool {
    word.len() == 2 && is_bundle(word)
}

/// Whether a word is one or more one-letter flags: `-avz`.
pub(crate) fn is_bundle(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-') && word[1..].chars().all(|c| c.is_ascii_alphabetic())
}

/// Whether a word of a command, other than the program, matches a recipe's word.
pub(crate) fn has(command: &[String], meant: &str) -> bool {
    command.iter().skip(at_program(command) + 1).any(|word| is_meant(word, meant))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_program_stands_behind_words_that_only_start_it() {
        let lines = [
            ("dd if=a of=b", "dd"),
            ("/usr/bin/env A=1 nice -n 10 /bin/dd if=a", "dd"),
            ("sudo -u postgres pg_dump mail", "pg_dump"),
            ("timeout -s KILL 10s rsync a b", "rsync"),
            ("taskset -c 0,1 pigz a", "pigz"),
            ("stdbuf -o L curl -O http://h/a", "curl"),
            ("env", "env"),
            ("sudo -v", "sudo"),
            ("", ""),
        ];
        for (line, name) in lines {
            assert_eq!(program(&words(line)), name, "{line}");
        }
    }

    #[test]
    fn operands_are_what_no_flag_takes() {
        let found = |line: &str| {
            let words = words(line);
            operands(&words, &["-t".into()]).into_iter().map(|at| words[at].clone()).collect::<Vec<_>>()
        };
        assert_eq!(found("nice cp -a -t dir a b"), ["a", "b"]);
        assert_eq!(found("cp -- -a b"), ["-a", "b"]);
        assert_eq!(found("gzip -c -"), ["-"]);
    }
}
