//! The output of a program's runs, which its recipe identifies in the command: it must not exist beforehand, and is removed after each run
//! and at the end. Nothing that existed before is removed.

use crate::{Error, Result};
use std::path::PathBuf;
use thalweg_base::shell;

/// The path of a run's output.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
}

impl Output {
    /// Returns the output named by this word of a command; `None` for an address or device. `repeat`: why a second run would do nothing.
    ///
    /// # Errors
    /// The output already exists.
    pub fn new(word: &str, repeat: &str) -> Result<Option<Output>> {
        let Some(path) = local(word) else { return Ok(None) };
        // A name with a placeholder differs for each run, or is the caller's concern.
        if word.contains('{') {
            return Ok(None);
        }
        let path = std::path::absolute(&path).map_err(Error::file(&path, "resolving the path"))?;
        match path.symlink_metadata() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Some(Output { path })),
            Err(error) => Err(Error::file(&path, "checking whether it exists")(error)),
            Ok(metadata) if is_device(&metadata) => Ok(None),
            Ok(_) => {
                let why = if repeat.is_empty() { "every run would overwrite it".to_owned() } else { repeat.to_owned() };
                Err(Error::Choice(format!(
                    "{} already exists, and the command is run a dozen times ({why}): name a new path (it is removed after each run), or \
                     give --prepare or --cleanup",
                    path.display()
                )))
            }
        }
    }

    /// Returns the shell command that removes it.
    pub fn removal(&self) -> String {
        // Placeholders of templates are double braces, which the path does not contain.
        format!("rm -rf -- {}", shell::word(&self.path.display().to_string()))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // A run that was stopped may have left it; it did not exist before.
        let _ = match self.path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => std::fs::remove_dir_all(&self.path),
            Ok(_) => std::fs::remove_file(&self.path),
            Err(_) => Ok(()),
        };
    }
}

/// Returns a local path; `None` for addresses, remote paths and standard output.
fn local(word: &str) -> Option<PathBuf> {
    if let Some(path) = word.strip_prefix("file://") {
        return Some(PathBuf::from(path));
    }
    let is_remote = word.contains("://") || word.split_once(':').is_some_and(|(host, _)| !host.is_empty() && !host.contains('/'));
    (!is_remote && word != "-").then(|| PathBuf::from(word))
}

fn is_device(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let kind = metadata.file_type();
    kind.is_char_device() || kind.is_block_device() || kind.is_fifo() || kind.is_socket()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn output(path: &Path) -> Result<Option<Output>> {
        Output::new(&path.display().to_string(), "")
    }

    #[test]
    fn what_was_there_before_is_never_removed() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["file", "link", "tree"] {
            let path = directory.path().join(name);
            match name {
                "file" => std::fs::write(&path, "mine").unwrap(),
                "link" => std::os::unix::fs::symlink("nowhere", &path).unwrap(),
                _ => std::fs::create_dir(&path).unwrap(),
            }
            let error = output(&path).unwrap_err().to_string();
            assert!(error.contains("already exists") && error.contains("--prepare"), "{error}");
            assert!(path.symlink_metadata().is_ok());
        }
    }

    #[test]
    fn what_runs_made_is_removed_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("it's new");
        let made = output(&path).unwrap().unwrap();
        std::fs::write(&path, "a run's").unwrap();
        let removed = std::process::Command::new("sh").args(["-c", &made.removal()]).status().unwrap();
        assert!(removed.success() && !path.exists());
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("x"), "a run's").unwrap();
        drop(made);
        assert!(!path.exists());
    }

    #[test]
    fn addresses_and_devices_are_nobody_s_to_remove() {
        for word in ["/dev/null", "thal://h/x", "host:/x", "root://h//x", "-", "file:///dev/null", "/tmp/x-{run}"] {
            assert!(Output::new(word, "").unwrap().is_none(), "{word}");
        }
    }
}
