//! Every threshold of an explanation, module by module: a number by which a rule decides, or up to which something is kept.
//!
//! Each has its reason: what was measured, or what is assumed of programs, kernels and networks. *Instead* names the fact that would make
//! it unnecessary: what a recorder would have to record so that the rule could read it instead of guessing. *Bound* names what is limited:
//! memory or work, no judgement. A number that is a fact of the format, the kernel or the document (no track, `EAGAIN`, the document's own
//! lengths) is no threshold and stays where it is used.

pub(crate) mod assemble;
pub(crate) mod connections;
pub(crate) mod diff;
pub(crate) mod numbers;
pub(crate) mod observe;
pub(crate) mod path;
pub(crate) mod profile;
pub(crate) mod replay;
pub(crate) mod rpcstat;
pub(crate) mod summary;
pub(crate) mod waits;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    /// Constants outside this module that are facts and sentinels. May only shrink.
    const FACTS: [&str; 18] = [
        "peer.rs PORTS",
        "replay/program.rs CLASSES",
        "replay/program.rs NO_MARK",
        "replay/regime.rs REGIMES",
        "replay/rows.rs EAGAIN",
        "replay/simulate.rs NOBODY",
        "observe/feed.rs TASK",
        "observe/index.rs NONE",
        "observe/observation.rs WAYS",
        "observe/span.rs EAGAIN",
        "rpcstat/responses.rs NOT_CAPTURED",
        "rpcstat/responses.rs UNANSWERED",
        "waits/connections.rs MANY_BYTES",
        "waits/looks.rs ECONNREFUSED",
        "waits/looks.rs EEXIST",
        "waits/looks.rs ENOENT",
        "waits/looks.rs ENOTEMPTY",
        "waits/ranks.rs EAGAIN",
    ];

    /// Documents, whose own lengths are part of their contract.
    const DOCUMENTS: [&str; 5] = ["document.rs", "connections/document.rs", "profile/document.rs", "rule.rs", "rpcstat/document.rs"];

    const NUMBERS: [&str; 12] = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "i128", "u128", "usize", "f64"];

    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => sources(&path, found),
                false => found.push(path),
            }
        }
    }

    /// Every source, by its path below `src`, without tests and comments.
    fn code() -> Vec<(String, String)> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut found = Vec::new();
        sources(&root, &mut found);
        let one = |path: PathBuf| {
            let text = std::fs::read_to_string(&path).expect("a source is text");
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            let lines: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
            (path.strip_prefix(&root).expect("below the root").display().to_string(), lines.join("\n"))
        };
        found.into_iter().map(one).collect()
    }

    /// The name of the numeric constant that a line defines.
    fn constant(line: &str) -> Option<&str> {
        let (before, rest) = line.split_once("const ")?;
        let (name, kind) = rest.split_once(": ")?;
        let visible = before.trim().is_empty() || before.trim().starts_with("pub");
        let kind = kind.split([' ', ';', ',']).next()?.trim_start_matches(['[', '(']);
        (visible && NUMBERS.contains(&kind)).then_some(name)
    }

    #[test]
    fn thresholds_stand_nowhere_else() {
        let elsewhere = |path: &str| !path.starts_with("limits/") && !DOCUMENTS.contains(&path);
        let mut found = BTreeSet::new();
        for (path, text) in code().into_iter().filter(|(path, _)| elsewhere(path)) {
            found.extend(text.lines().filter_map(constant).map(|name| format!("{path} {name}")));
        }
        let facts: BTreeSet<String> = FACTS.iter().map(|fact| (*fact).to_owned()).collect();
        assert_eq!(found, facts, "a threshold belongs into `limits`; what is gone is to be taken off the list");
    }

    #[test]
    fn every_threshold_has_its_reason() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/limits");
        let mut found = Vec::new();
        sources(&folder, &mut found);
        let mut count = 0;
        for path in found.iter().filter(|path| !path.ends_with("mod.rs")) {
            let mut reason = String::new();
            for line in std::fs::read_to_string(path).expect("a source is text").lines() {
                if let Some(more) = line.strip_prefix("///") {
                    reason += more;
                    continue;
                }
                if let Some(name) = constant(line) {
                    count += 1;
                    let given = reason.contains(" Instead: ") || reason.starts_with(" Bound: ");
                    assert!(given, "{name}: neither what would replace it (Instead) nor what it holds in check (Bound)");
                }
                reason.clear();
            }
        }
        assert!(count > 150, "{count} thresholds were found");
    }

    /// Numbers in code that look like thresholds: times and sizes in digits, and parts other than a half.
    #[test]
    fn no_threshold_is_without_a_name() {
        const PLAIN: [&str; 7] = ["0.0", "1.0", "0.5", "2.0", "1e9", "1e6", "1e3"];
        let is_digit = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let mut found = BTreeSet::new();
        for (path, text) in code().into_iter().filter(|(path, _)| !path.starts_with("limits/") && !DOCUMENTS.contains(&path.as_str())) {
            // Every second part is a string literal.
            let text: String = text.split('"').step_by(2).collect::<Vec<_>>().join("\"");
            let words = text.split(|c: char| !is_digit(c)).filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
            let is_bare = |word: &&str| {
                let word = word.trim_end_matches('.');
                let part = word.contains('.') && !word.contains("..") && !PLAIN.contains(&word);
                word.contains("_0") || part
            };
            found.extend(words.filter(is_bare).map(|word| format!("{path} {word}")));
        }
        let known: BTreeSet<String> = WORDING.iter().map(|known| (*known).to_owned()).collect();
        assert_eq!(found, known, "a threshold belongs into `limits`; what is gone is to be taken off the list");
    }

    /// Numbers in code that are no thresholds: rounding of figures, units, and factors of changes. May only shrink.
    const WORDING: [&str; 12] = [
        "assemble/gaps.rs 0.99",
        "assemble/round_trips/sentence.rs 0.05",
        "assemble/round_trips/sentence.rs 0.095",
        "assemble/round_trips/sentence.rs 1.5",
        "assemble/round_trips/sentence.rs 9.95",
        "replay/changes/link.rs 0.25",
        "replay/changes/streams.rs 0.25",
        "replay/services.rs 0.0_f64",
        "observe/channels.rs 3.0",
        "assemble/of_packets.rs 0.99",
        "rpcstat/mod.rs 0.99",
        "rpcstat/responses.rs 0.99",
    ];
}
