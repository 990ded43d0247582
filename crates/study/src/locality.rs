//! Finds the layout that keeps each writer's bytes of a file on its own node, from a recording of the job that wrote it.
//!
//! **In:** a recording; the targets of each node, if the recording does not have them. **Out:** the writers, the layout, and the share of
//! their bytes that it makes local ([`Plan`]).
//!
//! Writers are ranks of an MPI job, with the offsets, sizes and views of their writes, or processes whose calls were recorded one by one.
//! A writer's node is known from the mounted store it wrote through, or else from its machine's label. [`thalweg_layout::plan`] computes
//! the strips.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::path::Path;
use thalweg_base::ranges::{append, length};
use thalweg_layout::plan::{Options, Part, Refused, from_parts};
use thalweg_layout::{Layout, Spec};
use thalweg_trace::{MountDescription, Object, ObjectKind, Source, SpanKind, Track};

/// Maximum number of ranges considered.
const MOST_RANGES: usize = 4 << 20;

/// The targets of each node, by its label.
pub type TargetsOfNode = BTreeMap<String, Vec<u32>>;

/// A writer of the file.
#[derive(Clone, Debug, Serialize)]
pub struct Writer {
    /// Name of the rank or process.
    pub name: String,
    /// The label of its node.
    pub node: String,
    /// The target on its node for its bytes.
    pub target: u32,
    /// Bytes it wrote.
    pub bytes: u64,
}

/// The layout that keeps writers' bytes on their nodes, and how to set it.
#[derive(Debug, Serialize)]
pub struct Plan {
    /// `thalweg.layout-plan/1`.
    pub schema: &'static str,
    /// The file, as the program named it.
    pub file: String,
    /// Size up to the last byte written.
    pub size_bytes: u64,
    /// The writers, by number.
    pub writers: Vec<Writer>,
    /// Share of their bytes that is local in the current layout. Absent if not known.
    pub local_now: Option<f64>,
    /// What the job reported about locality when it closed the file, if anything.
    pub said: Option<String>,
    /// Share of their bytes that this layout makes local.
    pub local_then: f64,
    /// Distribution and parameters.
    pub layout: String,
    /// The placement.
    pub place: String,
    /// Number of datafiles.
    pub datafiles: usize,
    /// The layout as MPI hints.
    pub hints: BTreeMap<String, String>,
    /// Bytes whose offsets were not recorded.
    #[serde(skip)]
    pub elsewhere_bytes: u64,
}

/// A file's layout, with each datafile's target.
#[derive(Clone, Debug)]
pub struct LaidOut {
    layout: Layout,
    targets: Vec<u32>,
}

impl LaidOut {
    /// Returns the layout of a distribution over these targets; `None` if it is invalid.
    pub fn new(spec: &Spec, targets: Vec<u32>) -> Option<LaidOut> {
        let count = u32::try_from(targets.len()).ok().filter(|count| *count > 0)?;
        Some(LaidOut { layout: Layout::new(spec, Some(count), count).ok()?, targets })
    }

    /// Parses a mounted file's extended attributes for layout and datafiles.
    pub fn from_attributes(layout: &str, map: &str) -> Option<LaidOut> {
        let targets: Option<Vec<u32>> = map.lines().map(|line| line.split_whitespace().nth(1)?.parse().ok()).collect();
        LaidOut::new(&layout.split_whitespace().next()?.parse().ok()?, targets?)
    }
}

/// A file that was written, from a recording.
pub struct Written {
    /// Its path, as the program named it.
    pub path: String,
    /// Its layout when the job closed it, if the job reported one.
    pub laid_out: Option<LaidOut>,
    /// The targets of nodes, from the mounted stores in the recording; empty if there are none.
    pub targets: TargetsOfNode,
    said: Option<String>,
    writes: Writes,
}

/// The ranges written by each of a file's writers, by name and node.
#[derive(Default)]
struct Writes {
    of_writer: BTreeMap<(String, String), Vec<Range<u64>>>,
    bytes: u64,
    ranges: usize,
    /// Bytes whose offsets were not recorded.
    elsewhere: u64,
}

impl Written {
    /// Returns the file of this path, or with this end of its path; by default the file with the most bytes written.
    ///
    /// # Errors
    /// The recording cannot be read, has no offsets of writes, or has no such file.
    pub fn read(source: &dyn Source, wanted: Option<&str>) -> Result<Written, Refused> {
        let mounts = mounts(source);
        let (path, writes) = chosen(written(source, &mounts)?, wanted)?;
        let objects = || source.objects().iter();
        let laid_out = |object: &Object| LaidOut::from_attributes(attribute(object, "layout")?, attribute(object, "map")?);
        let said = |object: &Object| Some(attribute(object, "local")?.to_owned());
        Ok(Written {
            laid_out: objects().filter(|object| object.name == path).find_map(laid_out),
            targets: targets(&mounts),
            said: objects().filter(|object| object.kind == ObjectKind::File && base(&mounts, &object.name) == path).find_map(said),
            path,
            writes,
        })
    }

    /// Plans the layout for nodes with these targets; `now` is the file's current layout, if known.
    ///
    /// # Errors
    /// A writer's node has no target, or no layout makes the writers' bytes local.
    pub fn plan(self, targets: &TargetsOfNode, now: Option<&LaidOut>) -> Result<Plan, Refused> {
        let (writers, target_of, parts) = placed(&self.writes, targets)?;
        let size_bytes = parts.iter().map(|part| part.end).max().unwrap_or(0);
        let plan = from_parts(&parts, size_bytes, &target_of, &Options::default())
            .map_err(|refused| Refused(format!("{}: no layout makes its writers' bytes local: {refused}", self.path)))?;
        let list: Vec<String> = plan.targets.iter().map(u32::to_string).collect();
        let place = format!("targets:{}", list.join(","));
        let hints = [
            ("distribution_name", "varstrip_dist".to_owned()),
            ("varstrip_dist:string:strips", plan.strips.clone()),
            ("thalweg_placement", place.clone()),
        ];
        Ok(Plan {
            schema: "thalweg.layout-plan/1",
            local_now: now.map(|now| share(now, &parts, &writers, targets)),
            file: self.path,
            size_bytes,
            writers,
            said: self.said,
            local_then: plan.local_bytes as f64 / plan.claimed_bytes.max(1) as f64,
            layout: format!("varstrip_dist,strips={}", plan.strips),
            place,
            datafiles: plan.targets.len(),
            hints: hints.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
            elsewhere_bytes: self.writes.elsewhere,
        })
    }
}

/// Returns the mounted stores of a recording, by mount point.
///
/// Files opened by ranks of a job have their own mount attribute: a rank may see another mount at the same path.
fn mounts(source: &dyn Source) -> Vec<(String, MountDescription)> {
    let of_files = source.objects().iter().filter_map(|object| Some((object.name.clone(), mounted_of(object)?)));
    let said = source.meta().attributes.iter().filter_map(|(name, value)| {
        let point = name.rsplit_once("mount.").filter(|(before, _)| before.is_empty() || before.ends_with('.'))?.1;
        Some((point.to_owned(), MountDescription::read(value.as_bytes()).ok()?))
    });
    of_files.chain(said).collect()
}

fn attribute<'a>(object: &'a Object, name: &str) -> Option<&'a str> {
    object.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn mounted_of(object: &Object) -> Option<MountDescription> {
    MountDescription::read(attribute(object, "store")?.as_bytes()).ok()
}

fn mount_of<'a>(mounts: &'a [(String, MountDescription)], path: &str) -> Option<&'a (String, MountDescription)> {
    mounts.iter().filter(|(point, _)| Path::new(path).starts_with(point)).max_by_key(|(point, _)| point.len())
}

/// Returns the targets of each node, from mounted stores.
fn targets(mounts: &[(String, MountDescription)]) -> TargetsOfNode {
    let mut targets = TargetsOfNode::new();
    for (_, mounted) in mounts {
        for (node, numbers) in mounted.targets_of_nodes() {
            let of_node = targets.entry(node.to_owned()).or_default();
            for number in numbers {
                if !of_node.contains(&number) {
                    of_node.push(number);
                }
            }
        }
    }
    targets
}

/// An MPI file view: `DISPLACEMENT,EXTENT:OFFSET+LENGTH,...`.
struct View {
    displacement: u64,
    extent: u64,
    runs: Vec<(u64, u64)>,
}

impl View {
    fn read(text: &str) -> Option<View> {
        let (head, runs) = text.split_once(':')?;
        let (displacement, extent) = head.split_once(',')?;
        let run = |run: &str| run.split_once('+').and_then(|(offset, length)| Some((offset.parse().ok()?, length.parse().ok()?)));
        let runs: Vec<(u64, u64)> = runs.split(',').map(run).collect::<Option<_>>()?;
        let view = View { displacement: displacement.parse().ok()?, extent: extent.parse().ok()?, runs };
        (view.extent > 0 && view.runs.iter().any(|run| run.1 > 0)).then_some(view)
    }

    /// Returns the bytes of a tile before its first byte: a type may begin anywhere in, or after, its extent.
    fn before(&self) -> u64 {
        self.runs.first().map_or(0, |run| run.0)
    }

    /// Adds the ranges of the next `size` visible bytes from `offset`.
    fn ranges(&self, offset: u64, size: u64, found: &mut Vec<Range<u64>>) {
        let Some(within) = offset.checked_sub(self.displacement).and_then(|within| within.checked_sub(self.before())) else { return };
        let (mut tile, mut left) = (within / self.extent, size);
        while left > 0 && found.len() < MOST_RANGES {
            let base = self.displacement.saturating_add(tile.saturating_mul(self.extent));
            for &(at, length) in &self.runs {
                let start = base.saturating_add(at).max(offset);
                let end = base.saturating_add(at).saturating_add(length);
                let take = end.saturating_sub(start).min(left);
                if take > 0 {
                    append(found, start..start + take);
                    left -= take;
                }
            }
            tile += 1;
        }
    }
}

/// Returns the writes by file: from MPI calls of ranks if recorded, or else from the calls of processes.
fn written(source: &dyn Source, mounts: &[(String, MountDescription)]) -> Result<BTreeMap<String, Writes>, Refused> {
    let objects: HashMap<u64, &Object> =
        source.objects().iter().filter(|o| o.kind == ObjectKind::File).map(|o| (o.object.number(), o)).collect();
    let own_nodes: HashMap<u64, String> = objects.iter().filter_map(|(number, object)| Some((*number, mounted_of(object)?.node))).collect();
    // A view recorded without its pieces gives no offsets.
    let views: HashMap<u64, Option<View>> = objects
        .iter()
        .filter(|(_, object)| attribute(object, "view").is_some())
        .map(|(number, object)| (*number, attribute(object, "view").and_then(View::read)))
        .collect();
    let nodes: HashMap<u16, &str> = source.hosts().iter().map(|host| (host.host.0, host.node.as_str())).collect();
    let tracks: HashMap<u64, &Track> = source.tracks().iter().map(|t| (t.track.number(), t)).collect();
    let mut of_kind: [BTreeMap<String, Writes>; 2] = Default::default();
    for batch in source.spans_backward() {
        let batch = batch.map_err(|e| Refused(e.to_string()))?;
        for row in 0..batch.len() {
            let by_rank = batch.kind[row] == SpanKind::MpiWrite;
            if !by_rank && batch.kind[row] != SpanKind::FileWrite {
                continue;
            }
            let Some(span) = batch.row(row) else { continue };
            let object = span.object.and_then(|object| objects.get(&object.number()));
            let (Some(object), Some(track), Some(size)) = (object, tracks.get(&span.track.number()), span.size_bytes) else { continue };
            // A nonblocking write ends in a wait, which repeats it.
            if size == 0 || span.result.is_some_and(|result| result < 0) || (by_rank && span.parent.is_some()) {
                continue;
            }
            let file = of_kind[usize::from(!by_rank)].entry(base(mounts, &object.name)).or_default();
            file.bytes += size;
            let view = views.get(&object.object.number());
            let Some(offset) = span.offset_bytes.filter(|_| file.ranges < MOST_RANGES && !matches!(view, Some(None))) else {
                file.elsewhere += size;
                continue;
            };
            let said = own_nodes.get(&object.object.number()).map(String::as_str);
            let own = said.or_else(|| Some(mount_of(mounts, &object.name)?.1.node.as_str())).filter(|node| !node.is_empty());
            let node = own.or_else(|| nodes.get(&track.host.0).copied()).unwrap_or("");
            let name = if by_rank { track.name.clone() } else { format!("{} ({})", track.name, track.pid.unwrap_or(0)) };
            let ranges = file.of_writer.entry((name, node.to_owned())).or_default();
            let before = ranges.len();
            match view.and_then(Option::as_ref) {
                Some(view) => view.ranges(offset, size, ranges),
                None => append(ranges, offset..offset.saturating_add(size)),
            }
            file.ranges += ranges.len() - before;
        }
    }
    let [by_ranks, by_processes] = of_kind;
    let has_offsets = |files: &BTreeMap<String, Writes>| files.values().any(|file| !file.of_writer.is_empty());
    let files = if has_offsets(&by_ranks) { by_ranks } else { by_processes };
    if !has_offsets(&files) {
        return Err(Refused(
            "the recording has no offsets of writes: record the MPI calls (`thalweg record --mpi -- mpirun ...`), or every \
             system call (`thalweg record --tier syscall -- COMMAND`)"
                .to_owned(),
        ));
    }
    Ok(files)
}

/// Returns the path below the mount, since one file may be written through several mounts of a store.
fn base(mounts: &[(String, MountDescription)], path: &str) -> String {
    let below = mount_of(mounts, path).and_then(|(point, _)| Path::new(path).strip_prefix(point).ok());
    match below {
        Some(below) if mounts.len() > 1 && !below.as_os_str().is_empty() => format!("/{}", below.display()),
        _ => path.to_owned(),
    }
}

/// Returns the file asked for.
fn chosen(files: BTreeMap<String, Writes>, wanted: Option<&str>) -> Result<(String, Writes), Refused> {
    let names: Vec<String> = files.keys().cloned().collect();
    let fits = |name: &str| wanted.is_none_or(|wanted| name == wanted || Path::new(name).ends_with(wanted));
    let fitting = files.into_iter().filter(|(name, file)| fits(name) && !file.of_writer.is_empty());
    fitting.max_by_key(|(_, file)| file.bytes).ok_or_else(|| {
        let some: Vec<String> = names.into_iter().take(8).collect();
        Refused(format!("no writes to {} were recorded; there are writes to {}", wanted.unwrap_or("a file"), some.join(", ")))
    })
}

type Placed = (Vec<Writer>, Vec<u32>, Vec<Part>);

/// Returns each writer's target, round-robin over its node's targets.
fn placed(file: &Writes, targets: &TargetsOfNode) -> Result<Placed, Refused> {
    let mut turn: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut writers, mut target_of, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    let mut in_order: Vec<_> = file.of_writer.iter().collect();
    in_order.sort_by_key(|((name, _), _)| (name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned(), number_of(name)));
    for (index, ((name, node), ranges)) in in_order.into_iter().enumerate() {
        let of_node = targets.get(node).filter(|targets| !targets.is_empty()).ok_or_else(|| {
            let known: BTreeSet<&str> = targets.keys().map(String::as_str).collect();
            let known: Vec<&str> = known.into_iter().collect();
            Refused(format!(
                "{name} ran on node {node}, which has no target; targets are on {}. `thalweg serve` there, or give --target-of-node {node}=TARGET",
                known.join(", ")
            ))
        })?;
        let nth = turn.entry(node).or_default();
        let target = of_node[*nth % of_node.len()];
        *nth += 1;
        parts.extend(ranges.iter().map(|range| Part { start: range.start, end: range.end, writer: index as u32 }));
        let bytes = length(ranges);
        writers.push(Writer { name: name.clone(), node: node.clone(), target, bytes });
        target_of.push(target);
    }
    Ok((writers, target_of, parts))
}

fn number_of(name: &str) -> u64 {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    name[name.len() - digits..].parse().unwrap_or(0)
}

/// Returns the share of the writers' bytes that a layout places on targets of their nodes.
fn share(file: &LaidOut, parts: &[Part], writers: &[Writer], targets: &TargetsOfNode) -> f64 {
    let (mut local, mut all) = (0_u64, 0_u64);
    for part in parts {
        let own = targets.get(&writers[part.writer as usize].node).map_or(&[][..], Vec::as_slice);
        all += part.end - part.start;
        let pieces = file.layout.pieces(part.start, part.end - part.start).take(MOST_RANGES);
        let mine = pieces.filter(|piece| file.targets.get(piece.datafile as usize).is_some_and(|target| own.contains(target)));
        local += mine.map(|piece| piece.length).sum::<u64>();
    }
    local as f64 / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_says_which_bytes_a_write_went_to() {
        let tiled = View::read("100,40:0+10,20+10").unwrap();
        let mut found = Vec::new();
        tiled.ranges(100, 25, &mut found);
        assert_eq!(found, [100..110, 120..130, 140..145]);
        found.clear();
        tiled.ranges(145, 10, &mut found);
        assert_eq!(found, [145..150, 160..165], "it goes on where the last one ended");
        let late = View::read("0,40:30+10,60+10").unwrap();
        found.clear();
        late.ranges(30, 40, &mut found);
        assert_eq!(found, [30..40, 60..80, 100..110], "a type that begins late goes over its extent");
        let dense = View::read("0,1:0+1").unwrap();
        found.clear();
        dense.ranges(7, 5, &mut found);
        assert_eq!(found, std::slice::from_ref(&(7..12)));
        assert!(View::read("0,0:0+1").is_none() && View::read("0,8:").is_none() && View::read("x").is_none());
    }

    #[test]
    fn ranks_are_in_the_order_of_their_numbers() {
        let mut file = Writes::default();
        for rank in [10, 2, 1] {
            file.of_writer.insert((format!("rank {rank}"), "n".into()), std::iter::once(rank * 8..rank * 8 + 8).collect());
        }
        let targets = BTreeMap::from([("n".to_owned(), vec![4, 5])]);
        let Ok((writers, target_of, _)) = placed(&file, &targets) else { panic!("refused") };
        assert_eq!(writers.iter().map(|w| w.name.as_str()).collect::<Vec<_>>(), ["rank 1", "rank 2", "rank 10"]);
        assert_eq!(target_of, [4, 5, 4]);
        file.of_writer.insert(("rank 3".into(), "elsewhere".into()), std::iter::once(0..8).collect());
        assert!(placed(&file, &targets).is_err(), "a node without a target");
    }
}
