//! Names for addresses, after a recording: the kernel's from its own list, a program's from the symbol tables of its
//! files, run-time generated code's from the program's map (`/tmp/perf-PID.map`).
//!
//! [`resolve`] does it for another machine's recording, whose files are searched for by build identifier. A name is
//! only taken from a file with the recorded identifier.

mod elf;
#[cfg(feature = "bpf")]
pub(crate) mod go;
mod jit;
mod kernel;
mod notes;
mod search;

pub(crate) use elf::{Files, Named, Segments, open_file};
pub(crate) use jit::JitMap;
pub(crate) use kernel::KernelSymbols;
pub(crate) use notes::build_id_of;

use search::Search;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use thalweg_trace::Frame;

/// A file that was not found, so that its frames have no names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingFile {
    /// Its path where it was recorded.
    pub module: String,
    /// Its build identifier, if it has one.
    pub build_id: Option<String>,
    /// Samples whose stack has an unnamed frame of it.
    pub samples: u64,
}

/// Names the frames that have a file and an offset but no symbol. `stacks` are the stacks of a recording, innermost
/// frame first, each with its number of samples. Files are searched in `dirs` (`DIR/.build-id/xx/yyyy`, with or
/// without `.debug`, or by name), then among this machine's debug files, then at their path. Returns the missing
/// files, those with the most samples first.
pub fn resolve(stacks: &mut [(Vec<Frame>, u64)], dirs: &[PathBuf]) -> Vec<MissingFile> {
    let mut wanted: BTreeMap<(String, Option<String>), Vec<u64>> = BTreeMap::new();
    for (frames, _) in stacks.iter() {
        for (place, offset) in unnamed(frames) {
            wanted.entry(place_of(&frames[place])).or_default().push(offset);
        }
    }
    let search = Search::new(dirs);
    let mut files = Files::new();
    let mut names: HashMap<(String, Option<String>), HashMap<u64, Named>> = HashMap::new();
    for (module, mut offsets) in wanted {
        offsets.sort_unstable();
        offsets.dedup();
        let mut known = HashMap::new();
        for path in search.candidates(&module.0, module.1.as_deref()) {
            let left: Vec<u64> = offsets.iter().copied().filter(|offset| !known.contains_key(offset)).collect();
            if left.is_empty() {
                break;
            }
            known.extend(files.names(&path, &left));
        }
        names.insert(module, known);
    }
    let mut missing: HashMap<(String, Option<String>), u64> = HashMap::new();
    for (frames, samples) in stacks.iter_mut() {
        let mut lacks = Vec::new();
        for (place, offset) in unnamed(frames) {
            let module = place_of(&frames[place]);
            match names.get(&module).and_then(|known| known.get(&offset)) {
                Some(named) => {
                    // A return address was looked up one byte before it.
                    let back = frames[place].file_offset.unwrap_or(offset) - offset;
                    (frames[place].symbol, frames[place].offset) = (Some(named.symbol.clone()), named.offset + back);
                }
                None if !lacks.contains(&module) => lacks.push(module),
                None => {}
            }
        }
        lacks.into_iter().for_each(|module| *missing.entry(module).or_default() += *samples);
    }
    let all = missing.into_iter().map(|((module, build_id), samples)| MissingFile { module, build_id, samples });
    let mut all: Vec<MissingFile> = all.collect();
    all.sort_by(|a, b| b.samples.cmp(&a.samples).then_with(|| a.module.cmp(&b.module)));
    all
}

fn place_of(frame: &Frame) -> (String, Option<String>) {
    (frame.module.clone(), frame.build_id.clone())
}

/// Returns the unnamed frames that a file could name, with the offset to look up. All but the program's innermost
/// frame are return addresses, one past their call.
fn unnamed(frames: &[Frame]) -> Vec<(usize, u64)> {
    let first = frames.iter().position(Frame::is_user).unwrap_or(frames.len());
    let is_wanted = |frame: &Frame| frame.symbol.is_none() && frame.module.starts_with('/');
    let of = |(place, frame): (usize, &Frame)| Some((place, frame.file_offset?.saturating_sub(u64::from(place > first))));
    frames.iter().enumerate().filter(|(_, frame)| is_wanted(frame)).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_with_how_many_samples_it_costs() {
        let frame = |offset| Frame::parse(&format!("[/no/such/program 0102+{offset:#x}]"));
        let mut stacks = vec![(vec![frame(16), frame(32)], 5), (vec![Frame::parse("do_idle [kernel]"), frame(16)], 2)];
        let missing = resolve(&mut stacks, &[]);
        let expected = MissingFile { module: "/no/such/program".into(), build_id: Some("0102".into()), samples: 7 };
        assert_eq!(missing, [expected]);
    }

    #[test]
    fn a_return_address_is_looked_for_in_the_call_before_it() {
        let frames: Vec<Frame> = ["a [kernel]", "[/x 01+0x10]", "[/x 01+0x20]"].map(Frame::parse).to_vec();
        assert_eq!(unnamed(&frames), [(1, 0x10), (2, 0x1f)]);
    }
}
