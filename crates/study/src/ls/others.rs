//! What is no listing: names made and removed, small writes beside listings, and trees copied.

use super::plan::OUR_COPY;
use super::runs::{LISTED, Stage};
use super::sample::{NamesSample, WritesSample};
use super::serving::remove;
use crate::worker::names::{NamesPoint, Phase};
use crate::worker::protocol::{Answer, Order, strange};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes of a small file that is written beside listings.
const WRITTEN_BYTES: u64 = 4096;

impl Stage<'_> {
    /// `mdtest`'s patterns: all phases of one point, in a directory of their own.
    pub(super) fn names(&mut self, point: &NamesPoint) -> Result<NamesSample> {
        let near = self.choice.stage.nearest();
        if let (true, Some(problem)) = (point.mounted, &self.no_mount) {
            return Err(Error::Choice(format!("there is no mount: {problem}")));
        }
        let inside = format!("/names-{}", self.runs);
        let below = if point.mounted { format!("{}{inside}", self.mount_point().display()) } else { inside };
        // Single calls take longer each.
        let each = if point.batch == 1 { (self.choice.scale.names_each / 4).max(8) } else { self.choice.scale.names_each };
        let mut seconds = BTreeMap::new();
        for phase in Phase::ALL {
            let order = Order::Names { point: point.clone(), phase, below: below.clone(), each };
            seconds.insert(phase, self.took(near, &order)?);
        }
        Ok(NamesSample { names: each * u64::from(point.workers), seconds })
    }

    /// The directory that the crowd lists.
    pub(super) fn make_listed(&mut self) -> Result<()> {
        let (writer, files) = (self.writer(), self.choice.scale.listed_files);
        self.took(writer, &Order::Populate { directory: LISTED.into(), files, datafiles: 1 })?;
        self.serving()?.settle()
    }

    /// Small writes, alone or beside listings.
    pub(super) fn writes(&mut self, is_beside: bool) -> Result<WritesSample> {
        let (writer, crowd) = (self.writer(), self.crowd());
        let listings = if is_beside { self.choice.scale.listings } else { 0 };
        if is_beside {
            self.took(crowd, &Order::BeginListings { directory: LISTED.into(), listings })?;
        }
        let begun = Instant::now();
        let directory = format!("/written-{}", self.runs);
        let wrote = self.ask(writer, &Order::Write { directory, files: self.choice.scale.writes, bytes: WRITTEN_BYTES });
        let seconds = begun.elapsed().as_secs_f64();
        let listed = if is_beside { self.ask(crowd, &Order::EndListings) } else { Ok(Answer::Listed(0)) };
        let (Answer::Wrote(mut took), Answer::Listed(listed)) = (wrote?, listed?) else { return Err(strange()) };
        took.sort_unstable_by(f64::total_cmp);
        let at = |part: f64| took[((part * took.len() as f64) as usize).min(took.len() - 1)];
        Ok(WritesSample { listings, writes: took.len() as u64, p50_s: at(0.5), p99_s: at(0.99), most_s: at(1.0), listed, seconds })
    }

    /// The tree that is copied, and the mount that it is copied onto.
    pub(super) fn make_tree(&mut self) -> Result<()> {
        let scale = &self.choice.scale;
        self.tree = Some(Tree::make(&self.choice.directory, scale.copied_files, scale.copied_bytes)?);
        self.mount(self.choice.stage.nearest())
    }

    /// The tree copied in, by our command or by the stock one through the mount; how long it took.
    pub(super) fn copy(&mut self, subject: &str) -> Result<f64> {
        let tree = self.tree.as_ref().ok_or_else(|| Error::Choice("a copy of no tree: a bug".into()))?;
        let source = tree.0.display().to_string();
        let argv = if subject == OUR_COPY {
            let program = self.choice.program.to_string_lossy().into_owned();
            let target = format!("{}/ours-{}", self.serving()?.address, self.runs);
            vec![program, "cp".into(), "-r".into(), "--quiet".into(), source, target]
        } else {
            let target = self.mount_point().join(format!("stock-{}", self.runs));
            vec!["cp".into(), "-r".into(), source, target.display().to_string()]
        };
        let answer = self.ask(self.choice.stage.nearest(), &Order::Run { argv, counted: false })?;
        let Answer::Ran { seconds, .. } = answer else { return Err(strange()) };
        self.serving()?.settle()?;
        Ok(seconds)
    }
}

/// A tree of small files, which is removed when it goes.
pub(super) struct Tree(PathBuf);

impl Drop for Tree {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

impl Tree {
    /// Makes it: a hundred in each directory.
    fn make(below: &Path, files: u64, bytes: u64) -> Result<Tree> {
        let tree = Tree(below.join(format!("thalweg-ls-tree-{}", std::process::id())));
        let data = vec![b'x'; bytes as usize];
        for number in 0..files {
            let directory = tree.0.join(format!("directory-{:04}", number / 100));
            if number % 100 == 0 {
                std::fs::create_dir_all(&directory).map_err(Error::file(&directory, "making it"))?;
            }
            let path = directory.join(format!("file-{number:08}"));
            std::fs::write(&path, &data).map_err(Error::file(&path, "writing it"))?;
        }
        Ok(tree)
    }
}

/// What a run of names is called.
pub(super) fn name_of_names(point: &NamesPoint) -> String {
    let through = if point.mounted { "the mount" } else { "the library" };
    let directory = if point.shared { "one directory" } else { "directories of their own" };
    format!("names by {} workers in {directory} through {through}, {} in a request", point.workers, point.batch)
}
