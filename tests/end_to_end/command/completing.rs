//! Completion: what bash, zsh and fish offer while a line is being typed.

use crate::common::{THALWEG, Up, file, run, scratch, skipped, text};
use std::path::Path;
use std::process::Command;

/// Asks the function of `thalweg completions bash` as readline does.
const BASH: &str = r#"
source <(thalweg completions bash)
COMP_LINE=$1 COMP_POINT=${#1}
_thalweg thalweg "${1##*[ :=]}" "" 2>/dev/null
printf '%s\n' "${COMPREPLY[@]}"
"#;
/// Asks the function of `thalweg completions zsh`, with what zsh's own completion would be asked to show.
const ZSH: &str = r#"
compdef() { }
compadd() { print -rl -- ${(P)@[-1]} }
_default() { }
source <(thalweg completions zsh)
words=("${(@z)1}") && [[ $1 == *" " ]] && words+=("")
CURRENT=${#words}
_thalweg
"#;
const FISH: &str = r#"
thalweg completions fish | source
complete -C $argv[1] | string split -f 1 \t
"#;

struct Shells<'a> {
    directory: &'a Path,
    store: &'a str,
}

impl Shells<'_> {
    /// Runs one shell's script with the line; `None` if the shell is not installed.
    fn one(&self, shell: &[&str], line: &str) -> Option<Vec<String>> {
        let programs = Path::new(THALWEG).parent().expect("a directory");
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
        let output = Command::new(shell[0])
            .args(&shell[1..])
            .arg(line)
            .env("PATH", path)
            .env("THALWEG_STORE", self.store)
            .current_dir(self.directory)
            .output()
            .ok()?;
        Some(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
    }

    /// What each installed shell offers; bash's answers as whole words.
    fn offer(&self, line: &str) -> Vec<(&'static str, Vec<String>)> {
        let kept = line.rsplit(' ').next().unwrap_or_default();
        let kept = &kept[..kept.rfind([':', '=']).map_or(0, |at| at + 1)];
        let bash = self.one(&["bash", "--norc", "-c", BASH, "bash"], line);
        let bash = bash.map(|words| words.into_iter().map(|word| format!("{kept}{word}").replace('\\', "")).collect());
        let zsh = self.one(&["zsh", "-f", "-c", ZSH, "zsh"], line);
        let fish = self.one(&["fish", "--no-config", "-c", FISH], line);
        [("bash", bash), ("zsh", zsh), ("fish", fish)].into_iter().filter_map(|(name, words)| Some((name, words?))).collect()
    }
}

#[test]
fn shells_offer_verbs_flags_and_names_in_stores() {
    let store = Up::start(1);
    let directory = scratch();
    let one = file(directory.path(), "one.dat", b"1");
    std::fs::create_dir(directory.path().join("run.thw")).expect("a directory");
    run(["mkdir", "/inside", "--store", &store.address]).done();
    for name in ["first", "first two"] {
        run(["cp", text(&one), &format!("thal:/{name}"), "--store", &store.address]).done();
    }
    run(["lot", "create", "run7", "--size", "1Mi", "--for", "1h", "--store", &store.address]).done();
    let shells = Shells { directory: directory.path(), store: &store.address };
    let mut missing = vec!["bash", "zsh", "fish"];
    for (line, expected) in [
        ("thalweg exp", &["explain", "export"][..]),
        ("thalweg explain --fail", &["--fail-if"]),
        ("thalweg cp thal:/", &["thal:/first", "thal:/first two", "thal:/inside/"]),
        ("thalweg cp one.dat thal:/ins", &["thal:/inside/"]),
        ("thalweg ls /in", &["/inside/"]),
        ("thalweg lot show ", &["run7"]),
        ("thalweg cp --data-path d", &["direct"]),
        ("thalweg report ", &["run.thw"]),
        ("thalweg recipes dd", &["dd"]),
    ] {
        for (shell, offered) in shells.offer(line) {
            missing.retain(|name| *name != shell);
            for word in expected {
                assert!(offered.iter().any(|offer| offer == word), "{shell}: {line}: {word} is not among {offered:?}");
            }
        }
    }
    if !missing.is_empty() {
        skipped(&format!("not installed: {}", missing.join(", ")));
    }
}

#[test]
fn a_store_that_does_not_answer_offers_nothing_and_says_nothing() {
    let directory = scratch();
    let shells = Shells { directory: directory.path(), store: "thal://127.0.0.1:9" };
    for (shell, offered) in shells.offer("thalweg cp thal:/") {
        assert!(offered.iter().all(|word| word.trim_start_matches("thal:").is_empty()), "{shell}: {offered:?}");
    }
}

#[test]
fn manual_pages_are_written_for_each_verb() {
    let directory = scratch();
    let pages = directory.path().join("man1");
    run(["man", text(&pages)]).done();
    let page = std::fs::read_to_string(pages.join("thalweg-explain.1")).expect("the page");
    assert!(page.contains("fail"), "{page}");
}
