//! Files of a run: making, evicting and removing them; and syncing disks before it.

use super::protocol::Answer;
use crate::{Error, Result};
use rustix::fs::{FileType, Mode, XattrFlags};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thalweg_client::wire::protocol::metadata::{LayoutChoice, Placement};
use thalweg_measure::CacheState;

/// Time for which eviction is retried: the network may hold a page that a server has just sent.
const EVICT_WITHIN: Duration = Duration::from_secs(3);
/// The extended attribute that sets the layout of a mounted file.
const LAYOUT_ATTRIBUTE: &str = "user.thalweg.layout";
/// The extended attribute with the reason why a layout was rejected.
const ERROR_ATTRIBUTE: &str = "user.thalweg.error";

/// Makes a new file; on a mount, with its layout before it is first opened.
pub(super) fn make(path: &Path, layout: Option<&LayoutChoice>) -> Result<Answer> {
    if let Err(error) = std::fs::remove_file(path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(Error::file(path, "removing the old one")(error));
    }
    let Some(choice) = layout else {
        std::fs::File::create(path).map_err(Error::file(path, "making it"))?;
        return Ok(Answer::Made(None));
    };
    let made = rustix::fs::mknodat(rustix::fs::CWD, path, FileType::RegularFile, Mode::from_raw_mode(0o600), 0);
    made.map_err(|e| Error::file(path, "making it")(e.into()))?;
    let text = as_attribute(choice);
    if let Err(error) = rustix::fs::setxattr(path, LAYOUT_ATTRIBUTE, text.as_bytes(), XattrFlags::empty()) {
        let mut why = [0_u8; 4096];
        let said = rustix::fs::getxattr(path, ERROR_ATTRIBUTE, &mut why[..]).unwrap_or(0);
        let why = String::from_utf8_lossy(&why[..said.min(why.len())]).into_owned();
        return Err(Error::Choice(format!("{}: layout `{text}`: {error} {why}", path.display())));
    }
    let about = rustix::fs::stat(path).map_err(|e| Error::file(path, "asking for its number")(e.into()))?;
    Ok(Answer::Made(Some(about.st_ino)))
}

/// Removes a file, if it exists.
pub(super) fn remove(path: &Path) -> Result<()> {
    // Some servers keep removed files open, and so their space in use.
    match std::fs::File::create(path).and_then(|_| std::fs::remove_file(path)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::file(path, "removing it")(error)),
        _ => Ok(()),
    }
}

/// Evicts the existing files from the page cache.
pub(super) fn evict(files: &[PathBuf]) -> Result<CacheState> {
    let there: Vec<&PathBuf> = files.iter().filter(|path| path.exists()).collect();
    let begun = Instant::now();
    loop {
        let state = thalweg_measure::evict(&there)?;
        if state.is_verified() || there.is_empty() || begun.elapsed() > EVICT_WITHIN {
            return Ok(state);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Syncs disks, and touches as much memory as a run will need: a virtual machine may have returned unused memory, and the run would wait
/// for it.
pub(super) fn settle(directories: &[PathBuf], memory_bytes: u64) -> Result<Answer> {
    let mut memory = vec![0_u8; memory_bytes as usize];
    memory.iter_mut().step_by(4096).for_each(|byte| *byte = 1);
    std::hint::black_box(&memory);
    drop(memory);
    for directory in directories {
        let open = std::fs::File::open(directory).map_err(Error::file(directory, "opening it"))?;
        rustix::fs::syncfs(&open).map_err(|e| Error::file(directory, "making its file system durable")(e.into()))?;
    }
    Ok(Answer::Done)
}

/// Formats a choice for the extended attribute of a mounted file.
fn as_attribute(choice: &LayoutChoice) -> String {
    let mut words: Vec<String> = choice.spec.iter().map(ToString::to_string).collect();
    words.extend(choice.datafiles.map(|many| format!("datafiles={many}")));
    words.extend(choice.placement.as_ref().map(|placement| match placement {
        Placement::RoundRobin { first: None } => "place=round-robin".to_owned(),
        Placement::RoundRobin { first: Some(first) } => format!("place=round-robin:{}", first.0),
        Placement::Local => "place=local".to_owned(),
        Placement::Targets(targets) => {
            let numbers: Vec<String> = targets.iter().map(|target| target.0.to_string()).collect();
            format!("place=targets:{}", numbers.join(","))
        }
    }));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_client::wire::protocol::io::TargetId;
    use thalweg_layout::Spec;

    #[test]
    fn a_choice_is_text_as_the_flags_take_it() {
        let spec = Spec::new("varstrip_dist").with("strips", "0:4096;1:4096".to_owned());
        let placement = Some(Placement::Targets([0, 1].map(TargetId).into()));
        let choice = LayoutChoice { spec: Some(spec), datafiles: Some(2), placement, lot: None };
        assert_eq!(as_attribute(&choice), "varstrip_dist,strips=0:4096;1:4096 datafiles=2 place=targets:0,1");
    }
}
