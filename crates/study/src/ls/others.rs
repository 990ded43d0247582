//! What is no listing: names made and removed, a crowd beside a writer, and trees copied.

use super::{Conductor, LISTED, Notes, strange, text};
use crate::ls::choice::Part;
use crate::ls::protocol::{Answer, Order};
use crate::ls::raw::{CopyLine, CrowdLine, Line, NamesLine, NamesPoint, Phase};
use crate::ls::serving::{Serving, remove};
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

impl Conductor<'_> {
    /// Copies, crowds and names, each on a store of its own.
    pub(super) fn others(&mut self, notes: &mut Notes<'_>) -> Result<()> {
        let wanted = |part: Part| self.choice.parts.is_empty() || self.choice.parts.contains(&part);
        let parts: Vec<Part> = [Part::Copies, Part::Crowd, Part::Names].into_iter().filter(|part| wanted(*part)).collect();
        for part in parts {
            let scale = &self.choice.scale;
            notes.doing(&format!("{}: starting a store", part.name()))?;
            let done = match self.serve(scale.servers, scale.targets) {
                Err(error) => Err(error),
                Ok(serving) => match part {
                    Part::Names => self.names(&serving, notes),
                    Part::Crowd => self.crowded(&serving, notes),
                    _ => self.copies(&serving, notes),
                },
            };
            match done {
                Ok(()) => {}
                Err(Error::Stopped) => return Err(Error::Stopped),
                Err(error) => {
                    notes.observer.trouble(&format!("{}: {error}", part.name()));
                    notes.broken.insert(part.name().into(), error.to_string());
                    let _ = Command::new("umount").arg("--lazy").arg(self.mount_point()).output();
                    self.nodes.revive()?;
                }
            }
        }
        Ok(())
    }

    fn names_points(&self) -> Vec<(usize, NamesPoint)> {
        let (scale, near) = (&self.choice.scale, self.choice.stage.nearest());
        let place = &self.choice.stage.places[near].name;
        let mut points = Vec::new();
        for shared in [false, true] {
            for &workers in &scale.workers {
                let point = |mounted, batch| NamesPoint { place: place.clone(), mounted, shared, workers, batch };
                points.extend(scale.batches.iter().map(|batch| (near, point(false, *batch))));
                points.push((near, point(true, 1)));
            }
        }
        points
    }

    /// `mdtest`'s patterns: of each repetition all points, once forwards and once backwards.
    fn names(&mut self, serving: &Serving, notes: &mut Notes<'_>) -> Result<()> {
        let points = self.names_points();
        let mount_point = self.mount_point();
        let near = self.choice.stage.nearest();
        let is_mounted = match self.took(near, Order::Mount { store: serving.address.clone(), mount_point: mount_point.clone() }) {
            Ok(_) => true,
            Err(error) => {
                notes.keep("names through a mount", Err(error))?;
                false
            }
        };
        for repeat in 1..=self.choice.repeat.min(3) {
            let mut order: Vec<&(usize, NamesPoint)> = points.iter().filter(|(_, point)| is_mounted || !point.mounted).collect();
            if repeat % 2 == 0 {
                order.reverse();
            }
            for (run, (at, point)) in order.into_iter().enumerate() {
                let known = |line: &Line| matches!(line, Line::Names(l) if l.point == *point && l.repeat == repeat);
                let what = names_of(point);
                if notes.lines.iter().filter(|line| known(line)).count() >= Phase::ALL.len() || notes.is_broken(&what) {
                    continue;
                }
                notes.doing(&format!("{what}, repetition {repeat}"))?;
                // A directory of its own for each run: what one leaves behind is not the next one's.
                let inside = format!("/names-{repeat}-{run}");
                let below = if point.mounted { format!("{}{inside}", mount_point.display()) } else { inside };
                // Single calls take longer each.
                let each = if point.batch == 1 { (self.choice.scale.names_each / 4).max(8) } else { self.choice.scale.names_each };
                for phase in Phase::ALL {
                    let done = self.took(*at, Order::Names { point: point.clone(), phase, below: below.clone(), each });
                    let line = |seconds| NamesLine { point: point.clone(), phase, repeat, names: each * u64::from(point.workers), seconds };
                    notes.keep(&what, done.map(line).map(Line::Names))?;
                    if notes.is_broken(&what) {
                        break;
                    }
                }
            }
        }
        if is_mounted {
            self.took(near, Order::Unmount)?;
        }
        Ok(())
    }

    /// Small writes, alone and beside listings, in turn.
    fn crowded(&mut self, serving: &Serving, notes: &mut Notes<'_>) -> Result<()> {
        let scale = self.choice.scale.clone();
        let place = self.choice.stage.places[self.choice.stage.nearest()].name.clone();
        let (writer, crowd) = (self.writer(), self.crowd());
        self.took(writer, Order::Populate { directory: LISTED.into(), files: scale.listed_files, datafiles: 1 })?;
        serving.settle()?;
        for repeat in 1..=self.choice.repeat {
            for listings in [0, scale.listings] {
                let known = |line: &Line| matches!(line, Line::Crowd(l) if l.listings == listings && l.repeat == repeat);
                let what = format!("small writes beside {listings} listings");
                if notes.lines.iter().any(known) || notes.is_broken(&what) {
                    continue;
                }
                notes.doing(&format!("{what}, repetition {repeat}"))?;
                if listings > 0 {
                    self.took(crowd, Order::Begin { directory: LISTED.into(), listings })?;
                }
                let begun = Instant::now();
                let order = Order::Write { directory: format!("/written-{repeat}-{listings}"), files: scale.writes, bytes: 4096 };
                let wrote = self.ask(writer, order);
                let seconds = begun.elapsed().as_secs_f64();
                let listed = if listings == 0 { Ok(Answer::Listed(0)) } else { self.ask(crowd, Order::End) };
                let line = (|| {
                    let (Answer::Wrote(mut took), Answer::Listed(listed)) = (wrote?, listed?) else { return Err(strange()) };
                    took.sort_unstable_by(f64::total_cmp);
                    let at = |part: f64| took[((part * took.len() as f64) as usize).min(took.len() - 1)];
                    let (p50_s, p99_s, most_s, writes) = (at(0.5), at(0.99), at(1.0), took.len() as u64);
                    Ok(CrowdLine { place: place.clone(), listings, repeat, writes, p50_s, p99_s, most_s, listed, seconds })
                })();
                notes.keep(&what, line.map(Line::Crowd))?;
            }
        }
        Ok(())
    }

    /// A tree of small files, copied in by our command and by the stock one through a mount, in turn.
    fn copies(&mut self, serving: &Serving, notes: &mut Notes<'_>) -> Result<()> {
        let scale = self.choice.scale.clone();
        let near = self.choice.stage.nearest();
        let place = self.choice.stage.places[near].name.clone();
        let source = self.choice.directory.join(format!("thalweg-ls-tree-{}", std::process::id()));
        let _removed = Removed(source.clone());
        populate_tree(&source, scale.copied_files, scale.copied_bytes)?;
        let mount_point = self.mount_point();
        self.took(near, Order::Mount { store: serving.address.clone(), mount_point: mount_point.clone() })?;
        let program = self.choice.program.to_string_lossy().into_owned();
        for repeat in 1..=self.choice.repeat {
            let ours = vec![
                program.clone(),
                "cp".into(),
                "-r".into(),
                "--quiet".into(),
                text(&source),
                format!("{}/ours-{repeat}", serving.address),
            ];
            let stock = vec!["cp".into(), "-r".into(), text(&source), text(&mount_point.join(format!("stock-{repeat}")))];
            let mut arms = [("thalweg cp -r", ours), ("cp -r onto the mount", stock)];
            if repeat % 2 == 0 {
                arms.reverse();
            }
            for (how, argv) in arms {
                let known = |line: &Line| matches!(line, Line::Copy(l) if l.how == how && l.repeat == repeat);
                if notes.lines.iter().any(known) || notes.is_broken(how) {
                    continue;
                }
                notes.doing(&format!("{} files of {} bytes by {how}, repetition {repeat}", scale.copied_files, scale.copied_bytes))?;
                let line = match self.ask(near, Order::Run { argv, counted: false }) {
                    Ok(Answer::Ran { seconds, .. }) => Ok(CopyLine {
                        place: place.clone(),
                        how: how.into(),
                        repeat,
                        files: scale.copied_files,
                        bytes_each: scale.copied_bytes,
                        seconds,
                    }),
                    Ok(_) => Err(strange()),
                    Err(error) => Err(error),
                };
                notes.keep(how, line.map(Line::Copy))?;
                serving.settle()?;
            }
        }
        self.took(near, Order::Unmount).map(drop)
    }
}

/// Removes a directory when it goes.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

/// What a run of names is called.
fn names_of(point: &NamesPoint) -> String {
    let through = if point.mounted { "the mount" } else { "the library" };
    let directory = if point.shared { "one directory" } else { "directories of their own" };
    format!("names by {} workers in {directory} through {through}, {} in a request", point.workers, point.batch)
}

/// A tree of small files: a hundred in each directory.
fn populate_tree(directory: &Path, files: u64, bytes: u64) -> Result<()> {
    let data = vec![b'x'; bytes as usize];
    for number in 0..files {
        let below = directory.join(format!("directory-{:04}", number / 100));
        if number % 100 == 0 {
            std::fs::create_dir_all(&below).map_err(Error::file(&below, "making it"))?;
        }
        let path = below.join(format!("file-{number:08}"));
        std::fs::write(&path, &data).map_err(Error::file(&path, "writing it"))?;
    }
    Ok(())
}
