//! A command as a title, in a given number of columns, with the words that tell one run from another.
//!
//! These are the program, its verb, and its operands: sources and the destination. So options are dropped first, long ones before short
//! ones, with the values that are plainly theirs; then the longest words are cut in their middle, where paths and addresses say least; then
//! operands between the first and the last. One `…` replaces dropped words. What the answer below is about is dropped last ([`AnswerTerms`]): a
//! limit that makes the run take this long, the size of its blocks.

use crate::answer_terms::AnswerTerms;
use crate::limits::summary::LEAST_WORD;

/// Programs whose first operand is a verb.
const HAVE_VERBS: [&str; 17] = [
    "apt", "apt-get", "borg", "cargo", "docker", "git", "go", "ip", "kubectl", "make", "mc", "npm", "pip", "podman", "rclone", "restic",
    "thalweg",
];

/// Programs that run a text they are given.
const RUN_TEXT: [&str; 12] = ["ash", "bash", "dash", "ksh", "node", "perl", "psql", "python", "python3", "ruby", "sh", "zsh"];

/// The importance of a word in a title.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    LongOption,
    ShortOption,
    /// An operand between the first and the last.
    Operand,
    /// A word that the answer is about.
    Deciding,
    /// Program, verb, first and last operand.
    Essential,
}

/// The command in at most this many columns, with paths cut to their last part.
pub fn title(command: &[String], columns: usize) -> String {
    title_of(command, columns, "")
}

/// The command above an answer: the words the answer is about are dropped last.
pub fn title_of(command: &[String], columns: usize, answer: &str) -> String {
    let mut words = words(command, &AnswerTerms::of(answer));
    while width(&words) > columns {
        let droppable = words.iter().map(|word| word.kind).filter(|kind| *kind < Kind::Operand).min();
        // Of two equally unimportant words, drop the later one.
        let Some(at) = droppable.and_then(|kind| words.iter().rposition(|word| word.kind == kind)) else { break };
        drop_word(&mut words, at);
    }
    words = loop {
        let mut short = words.clone();
        shorten(&mut short, columns);
        let last = |kind| words.iter().rposition(|word| word.kind == kind);
        match last(Kind::Operand).or_else(|| last(Kind::Deciding)).filter(|_| width(&short) > columns) {
            Some(at) => drop_word(&mut words, at),
            None => break short,
        }
    };
    let said = joined(&words);
    if said.chars().count() <= columns { said } else { middle(&said, columns) }
}

/// A word.
#[derive(Clone)]
struct Word {
    /// Its text; empty for an ellipsis.
    text: String,
    /// Its importance.
    kind: Kind,
    /// The part of a script that the answer is about.
    part: Option<String>,
}

impl Word {
    fn new(text: impl Into<String>, kind: Kind) -> Word {
        Word { text: text.into(), kind, part: None }
    }
}

fn words(command: &[String], said: &AnswerTerms) -> Vec<Word> {
    let Some((program, rest)) = command.split_first() else { return Vec::new() };
    let program = base(program).to_owned();
    let gives_text = RUN_TEXT.contains(&program.as_str());
    let mut words: Vec<Word> = vec![Word::new(program.as_str(), Kind::Essential)];
    let mut operands: Vec<usize> = Vec::new();
    let mut only_operands = false;
    let mut after_option = false;
    for (at, word) in rest.iter().enumerate() {
        if gives_text && at > 0 && matches!(rest[at - 1].as_str(), "-c" | "-e") {
            // The option marks the next word as a script.
            words.last_mut().expect("an option before it").kind = Kind::Essential;
            let part = said.part_of(word).map(|part| part.split_whitespace().collect::<Vec<_>>().join(" "));
            words.push(Word { part, ..Word::new(short_word(word), Kind::Essential) });
            after_option = false;
            continue;
        }
        let kind = kind_of(word, only_operands);
        // A number after an option is its value.
        let is_number =
            word.starts_with(|c: char| c.is_ascii_digit()) && !word.contains(['/', ':']) && (!word.contains('.') || said.has(word));
        if after_option && !only_operands && kind == Kind::Operand && is_number {
            let option = words.last_mut().expect("an option before it");
            option.text = format!("{} {word}", option.text);
            option.kind = if said.has(word) { Kind::Deciding } else { option.kind };
            after_option = false;
            continue;
        }
        only_operands |= word == "--";
        after_option = kind < Kind::Operand && word.starts_with('-') && !word.contains('=');
        if kind == Kind::Operand {
            operands.push(words.len());
        }
        words.push(Word::new(short_word(word), if said.has(word) { Kind::Deciding } else { kind }));
    }
    let has_verb = usize::from(HAVE_VERBS.contains(&program.as_str()));
    // A word the answer is about outranks the first operand, which may be an option's value.
    let first = if words.iter().any(|word| word.kind == Kind::Deciding) { 0 } else { 1 };
    for &at in operands.iter().take(has_verb + first).chain(operands.last()) {
        words[at].kind = Kind::Essential;
    }
    words
}

/// The importance of a word by itself.
fn kind_of(word: &str, only_operands: bool) -> Kind {
    match word {
        "-" => Kind::Operand,
        _ if only_operands => Kind::Operand,
        "--" => Kind::LongOption,
        option if option.starts_with("--") => Kind::LongOption,
        option if option.starts_with('-') => Kind::ShortOption,
        setting if is_setting(setting) => Kind::LongOption,
        _ => Kind::Operand,
    }
}

/// Whether the word is a setting: `bs=1M`. Operands with a key (`if=big`) are not.
fn is_setting(word: &str) -> bool {
    let Some((name, value)) = word.split_once('=') else { return false };
    !matches!(name, "if" | "of") && !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && !value.contains('/')
}

/// Drops a word, leaving one ellipsis for it and its neighbours.
fn drop_word(words: &mut Vec<Word>, at: usize) {
    words[at] = Word::new("…", Kind::Essential);
    words.dedup_by(|later, earlier| later.text == "…" && earlier.text == "…");
}

/// Cuts the longest words until all fit, or none is long.
fn shorten(words: &mut [Word], columns: usize) {
    loop {
        let over = width(words).saturating_sub(columns);
        let cuttable = words.iter().enumerate().filter(|(_, word)| word.kind != Kind::Deciding);
        let mut lengths: Vec<(usize, usize)> = cuttable.map(|(at, word)| (word.text.chars().count(), at)).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        let Some(&(longest, at)) = lengths.first().filter(|(n, _)| over > 0 && *n > LEAST_WORD) else { return };
        // Only down to the next length: two long names are cut alike.
        let next = lengths.get(1).map_or(0, |(n, _)| *n);
        let to = longest.saturating_sub(over).max(next.min(longest - 1)).max(LEAST_WORD);
        words[at].text =
            words[at].part.as_deref().and_then(|part| around(&words[at].text, part, to)).unwrap_or_else(|| middle(&words[at].text, to));
    }
}

fn joined(words: &[Word]) -> String {
    words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}

fn width(words: &[Word]) -> usize {
    words.iter().map(|word| word.text.chars().count() + 1).sum::<usize>().saturating_sub(1)
}

/// Cuts a text to `columns` around a part that stays, with ellipses before and after it. `None` if the part does not fit.
fn around(text: &str, part: &str, columns: usize) -> Option<String> {
    let (before, behind) = text.split_once(part)?;
    let room = columns.checked_sub(part.chars().count()).filter(|room| *room >= LEAST_WORD)?;
    let (front, back) = (before.chars().count(), behind.chars().count());
    // Room that one side does not need goes to the other.
    let front_room = (room / 2).max(room.saturating_sub(back));
    let front_room = front_room.min(front);
    let back_room = room - front_room;
    let before = if front > front_room { before.chars().take(front_room - 1).chain(['…']).collect() } else { before.to_owned() };
    let behind =
        if back > back_room { ['…'].into_iter().chain(behind.chars().skip(back - back_room + 1)).collect() } else { behind.to_owned() };
    Some(format!("{before}{part}{behind}"))
}

/// Cuts a text to this many columns by dropping its middle; slightly more of its end stays, where suffixes and numbers are.
fn middle(text: &str, columns: usize) -> String {
    let count = text.chars().count();
    if count <= columns {
        return text.to_owned();
    }
    let kept = columns.saturating_sub(1);
    let front = kept / 2;
    text.chars().take(front).chain(['…']).chain(text.chars().skip(count - (kept - front))).collect()
}

/// The last part of a path; for a directory, with its slash.
pub(crate) fn base(path: &str) -> &str {
    let bare = path.trim_end_matches('/');
    let start = bare.rfind('/').map_or(0, |at| at + 1);
    if bare.is_empty() { path } else { &path[start..(bare.len() + 1).min(path.len())] }
}

fn short_word(word: &str) -> String {
    if let Some((scheme, rest)) = word.split_once("://").filter(|(scheme, _)| scheme.bytes().all(|b| b.is_ascii_alphanumeric())) {
        let path = rest.split(['?', '#']).next().unwrap_or(rest);
        return match path.split_once('/') {
            Some((host, path)) if !path.is_empty() => format!("{scheme}://{host}/{}", base(path)),
            _ => format!("{scheme}://{path}"),
        };
    }
    match word.split_once('=') {
        Some((flag, value)) if value.starts_with('/') && !flag.contains(char::is_whitespace) => format!("{flag}={}", base(value)),
        // A script is no path; nor is the current directory.
        None if word.starts_with(['/', '.']) && !word.contains(char::is_whitespace) && !matches!(word, "." | "..") => base(word).to_owned(),
        _ => word.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(words: &[&str], columns: usize) -> String {
        title(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>(), columns)
    }

    #[test]
    fn a_command_is_short_and_still_itself() {
        let short = |words: &[&str]| fitted(words, usize::MAX);
        assert_eq!(short(&["/usr/bin/cp", "-r", "/data/run/", "../big"]), "cp -r run/ big");
        assert_eq!(short(&["nfs-cp", "big", "nfs://127.0.0.1/srv/files/big?version=3"]), "nfs-cp big nfs://127.0.0.1/big");
        assert_eq!(short(&["dd", "if=/data/a", "of=/tmp/b", "bs=1M"]), "dd if=a of=b bs=1M");
        assert_eq!(short(&["sh", "-c", "/bin/a | /bin/b"]), "sh -c /bin/a | /bin/b");
        assert_eq!(short(&["find", ".", "-name", "x"]), "find . -name x");
        assert_eq!(short(&[]), "");
    }

    #[test]
    fn a_title_that_is_too_long_loses_options_before_anything_else() {
        assert_eq!(fitted(&["thalweg", "rm", "-r", "--explain", "/t"], 20), "thalweg rm -r … t");
        assert_eq!(fitted(&["thalweg", "rm", "-r", "--explain", "/t"], 15), "thalweg rm … t");
        assert_eq!(
            fitted(&["thalweg", "cp", "--requests", "16", "--sync", "big", "thalweg://h:1/big"], 36),
            "thalweg cp … big thalweg://h:1/big"
        );
        assert_eq!(fitted(&["dd", "if=/d/big", "of=/d/copy", "bs=1M", "count=4000"], 26), "dd if=big of=copy bs=1M …");
        assert_eq!(fitted(&["curl", "-sS", "-o", "out", "http://10.0.0.2/big"], 32), "curl … out http://10.0.0.2/big");
    }

    #[test]
    fn long_names_are_cut_in_their_middle_and_alike() {
        for columns in 16..60 {
            let said = fitted(&["cp", "a-very-long-name-of-a-file.tar", "another-long-name-of-one.tar"], columns);
            assert!(said.chars().count() <= columns && said.starts_with("cp a-") && said.ends_with("tar"), "{said}");
        }
    }

    #[test]
    fn of_many_sources_the_first_and_the_destination_stay() {
        let many: Vec<String> = (0..30).map(|n| format!("file{n}")).collect();
        let words: Vec<&str> = ["cp", "-a"].into_iter().chain(many.iter().map(String::as_str)).chain(["/store/target/"]).collect();
        let said = fitted(&words, 40);
        assert!(said.starts_with("cp … file0 ") && said.ends_with(" … target/") && said.chars().count() <= 40, "{said}");
    }

    #[test]
    fn what_the_answer_is_about_goes_last() {
        let above =
            |words: &[&str], columns, answer: &str| title_of(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>(), columns, answer);
        let limited = ["curl", "-sS", "--limit-rate", "8M", "-o", "/data/out", "http://10.0.0.2/big"];
        assert_eq!(above(&limited, 40, "curl slept to keep its limit (--limit-rate 8M)."), "curl … --limit-rate 8M … http://…0.2/big");
        assert_eq!(above(&limited, 40, ""), "curl -sS … -o out http://10.0.0.2/big");
        let small = ["dd", "if=/d/big", "of=/d/copy", "bs=512", "conv=fsync", "count=4000"];
        assert_eq!(above(&small, 30, "Reads and writes of 512 bytes: 8,000 calls × 2.10 µs."), "dd if=big of=copy bs=512 …");
        let script = ["sh", "-c", "for i in 1 2 3; do curl -s --limit-rate 8M -o /data/out http://10.0.0.2/big; done"];
        let said = above(&script, 40, "curl slept to keep its limit (--limit-rate 8M).");
        assert!(said.starts_with("sh -c for i") && said.contains("--limit-rate 8M") && said.chars().count() <= 40, "{said}");
        for columns in 24..60 {
            assert!(above(&limited, columns, "8.00 MiB/s").chars().count() <= columns);
            assert!(above(&script, columns, "8.00 MiB/s").chars().count() <= columns);
        }
    }

    #[test]
    fn a_script_keeps_what_runs_it() {
        let said = fitted(&["sh", "-c", "tar c /srv/data | gzip -1 > /dev/null"], 30);
        assert!(said.starts_with("sh -c tar c ") && said.ends_with("/dev/null"), "{said}");
    }
}
