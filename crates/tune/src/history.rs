//! What earlier tunings found, so that the next one starts there: a line of JSON for each command and pair of endpoints, in a file of the user's state
//! directory. It is only ever a second run: what was true last month is believed after a run that says so today.

use crate::document::Setting;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// So many lines are kept, the newest.
const MOST_LINES: usize = 1_000;

/// What one tuning found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Line {
    /// Of what: [`key`].
    key: String,
    /// The setting.
    values: Setting,
    /// When, seconds since 1970.
    at_unix_s: u64,
}

/// The file.
#[derive(Clone, Debug)]
pub struct History {
    path: PathBuf,
}

impl History {
    /// The user's own: `$XDG_STATE_HOME/thalweg/tune.jsonl`, by default under `~/.local/state`; `None` where there is no such place.
    pub fn of_user() -> Option<History> {
        let directory = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = directory("XDG_STATE_HOME").or_else(|| Some(directory("HOME")?.join(".local/state")))?;
        Some(History { path: state.join("thalweg/tune.jsonl") })
    }

    /// In this file.
    pub fn at(path: PathBuf) -> History {
        History { path }
    }

    /// What was found last for this key. A file that cannot be read, and lines that are none, are as good as none.
    pub fn find(&self, key: &str) -> Option<Setting> {
        self.lines().into_iter().rev().find(|line| line.key == key).map(|line| line.values)
    }

    /// Keeps what was found; the newest lines are kept, each key once.
    ///
    /// # Errors
    /// The file cannot be written; what it had is untouched.
    pub fn keep(&self, key: &str, values: &Setting) -> Result<()> {
        let mut lines = self.lines();
        lines.retain(|line| line.key != key);
        let at_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        lines.push(Line { key: key.to_owned(), values: values.clone(), at_unix_s });
        let from = lines.len().saturating_sub(MOST_LINES);
        self.write(&lines[from..]).map_err(Error::file(&self.path, "keeping what was found"))
    }

    fn lines(&self) -> Vec<Line> {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Beside it, and published by rename: a reader sees the old file or the new one.
    fn write(&self, lines: &[Line]) -> std::io::Result<()> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(directory)?;
        let beside = directory.join(format!("tune.{}.partial", std::process::id()));
        let mut file = std::fs::File::create(&beside)?;
        for line in lines {
            serde_json::to_writer(&mut file, line)?;
            file.write_all(b"\n")?;
        }
        std::fs::rename(&beside, &self.path).inspect_err(|_| drop(std::fs::remove_file(&beside)))
    }
}

/// What a tuning is of: the program, its parameters, and the endpoints that its words name: an address's host, or the mount a path is on. The names of files
/// are not part of it: the next file of the same endpoints is tuned the same way.
pub fn key(command: &[String], parameters: &[&str], mounts: &[PathBuf]) -> String {
    let program = command.first().map(|word| Path::new(word).file_name().map_or(word.clone(), |name| name.to_string_lossy().into_owned()));
    let endpoints = command.iter().skip(1).filter_map(|word| endpoint(word, mounts));
    let parameters = [parameters.join(",")];
    program.into_iter().chain(parameters).chain(endpoints).collect::<Vec<_>>().join(" ")
}

fn endpoint(word: &str, mounts: &[PathBuf]) -> Option<String> {
    let word = word.rsplit_once('=').map_or(word, |(name, value)| if name.contains('/') { word } else { value });
    let word = word.strip_prefix("file://").unwrap_or(word);
    if let Some((scheme, rest)) = word.split_once("://") {
        return Some(format!("{scheme}://{}", rest.split(['/', '?']).next().unwrap_or_default()));
    }
    if let Some((host, _)) = word.split_once(':').filter(|(host, path)| !host.is_empty() && !host.contains('/') && path.contains('/')) {
        return Some(format!("{host}:"));
    }
    if !word.contains('/') {
        return None;
    }
    let whole = std::path::absolute(word).ok()?;
    mounts.iter().filter(|mount| whole.starts_with(mount)).max_by_key(|mount| mount.as_os_str().len()).map(|mount| mount.display().to_string())
}

/// Where file systems are mounted on this machine.
pub fn mounts() -> Vec<PathBuf> {
    let text = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    text.lines().filter_map(|line| line.split(' ').nth(1)).map(|path| PathBuf::from(path.replace("\\040", " "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(values: &[(&str, &str)]) -> Setting {
        values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_was_found_is_found_again_and_a_damaged_file_is_as_good_as_none() {
        let directory = tempfile::tempdir().unwrap();
        let history = History::at(directory.path().join("state/tune.jsonl"));
        assert_eq!(history.find("a"), None);
        history.keep("a", &setting(&[("streams", "4")])).unwrap();
        history.keep("b", &setting(&[("streams", "8")])).unwrap();
        history.keep("a", &setting(&[("streams", "2")])).unwrap();
        assert_eq!(history.find("a"), Some(setting(&[("streams", "2")])));
        assert_eq!(std::fs::read_to_string(&history.path).unwrap().lines().count(), 2);
        let text = std::fs::read_to_string(&history.path).unwrap();
        std::fs::write(&history.path, format!("{{broken\n\0\n{text}")).unwrap();
        assert_eq!(history.find("b"), Some(setting(&[("streams", "8")])));
        std::fs::write(&history.path, [0xff, 0xfe]).unwrap();
        assert_eq!(history.find("b"), None);
        history.keep("b", &setting(&[("streams", "1")])).unwrap();
        assert_eq!(history.find("b"), Some(setting(&[("streams", "1")])));
    }

    #[test]
    fn a_key_is_the_program_and_where_its_words_lead_and_not_the_names_of_files() {
        let mounts = [PathBuf::from("/"), PathBuf::from("/data")];
        let of = |line: &str| key(&line.split(' ').map(str::to_owned).collect::<Vec<_>>(), &["streams"], &mounts);
        assert_eq!(of("/usr/bin/cp -p {streams} /data/a /b"), "cp streams /data /");
        assert_eq!(of("globus-url-copy file:///data/a ftp://h:2811/b"), "globus-url-copy streams /data ftp://h:2811");
        assert_eq!(of("dd if=/data/x of=/y bs={streams}"), "dd streams /data /");
        assert_eq!(of("rsync -a /data/a host:/b"), "rsync streams /data host:");
        assert_eq!(of("scp /data/one h:/x"), of("scp /data/two h:/y"));
    }
}
