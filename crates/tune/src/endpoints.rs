//! Identifies what is tuned, so that the next tuning of the same endpoints begins with this one's result.

use std::path::{Path, PathBuf};

/// Returns a key of the program, its parameters, and the endpoints in its words: an address's host, or the mount a path is on. File names
/// are not included: the next file between the same endpoints has the same key.
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
    mounts
        .iter()
        .filter(|mount| whole.starts_with(mount))
        .max_by_key(|mount| mount.as_os_str().len())
        .map(|mount| mount.display().to_string())
}

/// Returns the mount points of this machine.
pub fn mounts() -> Vec<PathBuf> {
    thalweg_base::proc::mounts::here().unwrap_or_default().into_iter().map(|mount| mount.point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
