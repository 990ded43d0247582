//! Checks the program's version against a recipe's: options and defaults change between versions.

use crate::{Error, Result};
use std::process::Command;
use std::time::Duration;
use thalweg_measure::Process;
use thalweg_recipes::Versions;

/// Timeout for a program to print its version.
const WITHIN: Duration = Duration::from_secs(10);

/// Checks that the program has a supported version; returns a note if the version is unknown.
pub(super) fn check(versions: &Versions, recipe: &str, of: &str) -> Result<Option<String>> {
    let (found, is_right, wanted) = match versions {
        Versions::Linked { library } => {
            let linked = said(&["sh".into(), "-c".into(), "ldd \"$(command -v \"$1\")\"".into(), "sh".into(), of.into()]);
            let stem = library.split(".so").next().unwrap_or(library);
            let found = linked.split_whitespace().find(|word| word.starts_with(stem)).map(str::to_owned);
            (
                found.as_ref().map(|name| format!("linked with {name}")),
                found.as_ref() == Some(library),
                format!("programs linked with {library}"),
            )
        }
        Versions::Asked { program, arguments, from, before } => {
            let asked = program.as_deref().unwrap_or(of);
            let found = first_number(&said(&[&[asked.to_owned()], arguments.as_slice()].concat()));
            let is_right = found.as_ref().is_some_and(|found| parts(found) >= parts(from) && parts(found) < parts(before));
            (found.map(|found| format!("version {found}")), is_right, format!("versions from {from} and before {before}"))
        }
    };
    match found {
        None => Ok(Some(format!("the version of {of} is not known; the recipe {recipe} is for {wanted}"))),
        Some(_) if is_right => Ok(None),
        Some(found) => Err(Error::Choice(format!(
            "{of} is {found}, and the recipe {recipe} is for {wanted}: what its options do may have changed. Give --vary NAME=VALUES and put {{NAME}} into \
             the command, or --recipe FILE with one that was checked with it"
        ))),
    }
}

/// Returns a command's output, both streams, whatever its exit status.
fn said(words: &[String]) -> String {
    let mut command = Command::new("sh");
    command.args(["-c", "\"$@\" 2>&1 || true", "sh"]).args(words);
    let ran = Process::new(command).time_limit(WITHIN).keep_output().run_for_output();
    ran.map(|(_, output)| String::from_utf8_lossy(&output).into_owned()).unwrap_or_default()
}

fn parts(version: &str) -> Vec<u64> {
    version.split('.').map_while(|part| part.parse().ok()).collect()
}

/// Returns the first number with a dot in it.
fn first_number(text: &str) -> Option<String> {
    text.split(|c: char| !c.is_ascii_digit() && c != '.')
        .map(|word| word.trim_matches('.'))
        .find(|word| word.contains('.'))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str, from: &str, before: &str) -> Versions {
        let (from, before) = (from.to_owned(), before.to_owned());
        Versions::Asked { program: None, arguments: vec!["-c".into(), line.into()], from, before }
    }

    #[test]
    fn versions_are_numbers_and_not_texts() {
        for (version, is_right) in [("9.0", true), ("9.0.1", true), ("10.12", true), ("8.99", false), ("11.0", false)] {
            let checked = check(&of(&format!("echo {version}"), "9", "11"), "made-up", "sh");
            assert_eq!(checked.is_ok(), is_right, "{version}");
        }
        assert_eq!(first_number("globus-url-copy: 10.12 (1234567-0) [unknown]").unwrap(), "10.12");
        assert_eq!(first_number("rclone v1.60.1-DEV\n- os/version: debian 12.1").unwrap(), "1.60.1");
        assert_eq!(first_number("no number 12 here."), None);
    }

    #[test]
    fn another_version_is_refused_with_both_named_and_a_silent_program_is_noted() {
        assert_eq!(check(&of("echo program 2.5", "2.1", "3"), "made-up", "sh").unwrap(), None);
        let error = check(&of("echo program 3.0 >&2; exit 1", "2.1", "3"), "made-up", "sh").unwrap_err().to_string();
        assert!(error.contains("version 3.0") && error.contains("from 2.1 and before 3") && error.contains("--vary"), "{error}");
        assert!(check(&of("echo hello", "2.1", "3"), "made-up", "sh").unwrap().unwrap().contains("not known"));
        let linked = |library: &str| check(&Versions::Linked { library: library.into() }, "made-up", "sh");
        assert_eq!(linked("libc.so.6").unwrap(), None);
        assert!(linked("libc.so.5").unwrap_err().to_string().contains("linked with libc.so.6"));
    }
}
