//! `thalweg layout plan RECORDING`: from who wrote which bytes of a file to the layout that keeps each writer's bytes on its own node.
//!
//! Writers are what a recording has of them: ranks of an MPI job with the offsets, sizes and views of their writes; or processes
//! whose calls were recorded one by one. Which node a writer is on is told by the mounted store it wrote through, else by its
//! machine's label.

use crate::operand::StoreFlags;
use crate::{failure::Failure, output, session::Session, size};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use thalweg_layout::plan::{Options, Part, Plan, from_parts};
use thalweg_layout::{Layout, Spec};
use thalweg_trace::{MountDescription, ObjectKind, Recording, Source, SpanKind};

/// Arguments of `thalweg layout plan`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The recording: a directory NAME.thw
    recording: PathBuf,
    /// The file, as the program named it, or the end of its path (default: the one most was written to)
    #[arg(long, value_name = "PATH")]
    file: Option<String>,
    /// Which targets a node has, where the recording does not tell: NODE=TARGET[,TARGET]... Repeat it for more
    #[arg(long, value_name = "NODE=TARGETS", value_parser = targets_of_node)]
    target_of_node: Vec<(String, Vec<u32>)>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreFlags,
}

fn targets_of_node(text: &str) -> Result<(String, Vec<u32>), String> {
    let expected = || format!("`{text}`: expected NODE=TARGET[,TARGET]...");
    let (node, targets) = text.split_once('=').filter(|(node, _)| !node.is_empty()).ok_or_else(expected)?;
    let targets: Result<Vec<u32>, _> = targets.split(',').map(str::parse).collect();
    Ok((node.to_owned(), targets.map_err(|_| expected())?))
}

/// More ranges than this are not looked at.
const MOST_RANGES: usize = 4 << 20;

/// One who writes.
#[derive(Clone, Debug, Serialize)]
struct Writer {
    name: String,
    node: String,
    target: u32,
    bytes: u64,
}

/// The document of `layout plan --json`.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    file: String,
    size_bytes: u64,
    writers: Vec<Writer>,
    /// Absent: how the file was laid out is not known.
    local_now: Option<f64>,
    /// What the job said of it when it closed the file; absent: nothing.
    said: Option<String>,
    local_then: f64,
    layout: String,
    place: String,
    datafiles: usize,
    hints: BTreeMap<String, String>,
}

/// A file's writers: by name and node, the ranges each wrote.
#[derive(Default)]
struct Written {
    of_writer: BTreeMap<(String, String), Vec<(u64, u64)>>,
    bytes: u64,
    ranges: usize,
    /// Bytes of which it was not recorded where they went.
    elsewhere: u64,
}

/// Plans.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let recording = Recording::open(&arguments.recording).map_err(Failure::failed)?;
    let mounts = mounts(&recording);
    let files = written(&recording, &mounts)?;
    let (path, file) = chosen(files, arguments.file.as_deref())?;
    let targets = targets(arguments, &mounts)?;
    let (writers, target_of, parts) = placed(&file, &targets)?;
    let cycle = parts.iter().map(|part| part.end).max().unwrap_or(0);
    let plan = from_parts(&parts, cycle, &target_of, &Options::default())
        .map_err(|refused| Failure::failed(format!("{path}: no layout makes its writers' bytes local: {refused}")))?;
    let local_now = then(&recording, &path)
        .map_or_else(|| now(&path, arguments), |then| Ok(Some(then)))?
        .map(|(layout, on)| share(&layout, &on, &parts, &writers, &targets));
    let mut document = document(path, cycle, writers, local_now, &plan);
    document.said = said(&recording, &document.file, &mounts);
    if arguments.json {
        return output::json(&document);
    }
    output::result(&text(&document, &plan, file.elsewhere))
}

/// The mounted stores of a recording, by where they were mounted.
///
/// Of files that a job's ranks opened, each says it itself: a rank may see another mount at the same path.
fn mounts(source: &dyn Source) -> Vec<(String, MountDescription)> {
    let of_files = source.objects().iter().filter_map(|object| Some((object.name.clone(), mounted_of(object)?)));
    let said = source.meta().attributes.iter().filter_map(|(name, value)| {
        let point = name.rsplit_once("mount.").filter(|(before, _)| before.is_empty() || before.ends_with('.'))?.1;
        Some((point.to_owned(), MountDescription::read(value.as_bytes()).ok()?))
    });
    of_files.chain(said).collect()
}

fn attribute<'a>(object: &'a thalweg_trace::Object, name: &str) -> Option<&'a str> {
    object.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn mounted_of(object: &thalweg_trace::Object) -> Option<MountDescription> {
    MountDescription::read(attribute(object, "store")?.as_bytes()).ok()
}

fn mount_of<'a>(mounts: &'a [(String, MountDescription)], path: &str) -> Option<&'a (String, MountDescription)> {
    mounts.iter().filter(|(point, _)| Path::new(path).starts_with(point)).max_by_key(|(point, _)| point.len())
}

/// A view of a file: `DISPLACEMENT,EXTENT:OFFSET+LENGTH,...`.
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

    /// What of a tile comes before its first byte: a type may begin anywhere in, or behind, its extent.
    fn before(&self) -> u64 {
        self.runs.first().map_or(0, |run| run.0)
    }

    /// The ranges of the next `size` bytes that can be seen from `offset` on.
    fn ranges(&self, offset: u64, size: u64, found: &mut Vec<(u64, u64)>) {
        let Some(within) = offset.checked_sub(self.displacement).and_then(|within| within.checked_sub(self.before())) else { return };
        let (mut tile, mut left) = (within / self.extent, size);
        while left > 0 && found.len() < MOST_RANGES {
            let base = self.displacement.saturating_add(tile.saturating_mul(self.extent));
            for &(at, length) in &self.runs {
                let start = base.saturating_add(at).max(offset);
                let end = base.saturating_add(at).saturating_add(length);
                let take = end.saturating_sub(start).min(left);
                if take > 0 {
                    push(found, (start, start + take));
                    left -= take;
                }
            }
            tile += 1;
        }
    }
}

/// Adds a range, joined with the last one where it goes on from there.
fn push(ranges: &mut Vec<(u64, u64)>, range: (u64, u64)) {
    match ranges.last_mut() {
        Some(last) if last.1 == range.0 => last.1 = range.1,
        _ => ranges.push(range),
    }
}

/// Who wrote what, by file. Where ranks' calls were recorded they are what counts; else the calls of processes.
fn written(source: &dyn Source, mounts: &[(String, MountDescription)]) -> Result<BTreeMap<String, Written>, Failure> {
    let objects: HashMap<u64, &thalweg_trace::Object> =
        source.objects().iter().filter(|o| o.kind == ObjectKind::File).map(|o| (o.object.number(), o)).collect();
    let view = |o: &thalweg_trace::Object| View::read(attribute(o, "view")?);
    let own_nodes: HashMap<u64, String> = objects.iter().filter_map(|(number, object)| Some((*number, mounted_of(object)?.node))).collect();
    // Nothing is known of where a view leads that was recorded without its pieces.
    let views: HashMap<u64, Option<View>> =
        objects.iter().filter(|(_, object)| attribute(object, "view").is_some()).map(|(number, object)| (*number, view(object))).collect();
    let nodes: HashMap<u16, &str> = source.hosts().iter().map(|host| (host.host.0, host.node.as_str())).collect();
    let tracks: HashMap<u64, &thalweg_trace::Track> = source.tracks().iter().map(|t| (t.track.number(), t)).collect();
    let mut of_kind: [BTreeMap<String, Written>; 2] = Default::default();
    for batch in source.spans_backward() {
        let batch = batch.map_err(Failure::failed)?;
        for row in 0..batch.len() {
            let by_rank = batch.kind[row] == SpanKind::MpiWrite;
            if !by_rank && batch.kind[row] != SpanKind::FileWrite {
                continue;
            }
            let Some(span) = batch.row(row) else { continue };
            let object = span.object.and_then(|object| objects.get(&object.number()));
            let (Some(object), Some(track), Some(size)) = (object, tracks.get(&span.track.number()), span.size_bytes) else { continue };
            // What was posted without waiting ends in a wait, which says it again.
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
                None => push(ranges, (offset, offset.saturating_add(size))),
            }
            file.ranges += ranges.len() - before;
        }
    }
    let [by_ranks, by_processes] = of_kind;
    let has_offsets = |files: &BTreeMap<String, Written>| files.values().any(|file| !file.of_writer.is_empty());
    let files = if has_offsets(&by_ranks) { by_ranks } else { by_processes };
    if !has_offsets(&files) {
        return Err(Failure::failed(
            "the recording does not say where in a file anything was written: record the MPI calls (`thalweg record --mpi -- mpirun ...`), or every \
             system call (`thalweg record --tier syscall -- COMMAND`)",
        ));
    }
    Ok(files)
}

/// One file may be written through several mounts of one store: what it is called below them.
fn base(mounts: &[(String, MountDescription)], path: &str) -> String {
    let below = mount_of(mounts, path).and_then(|(point, _)| Path::new(path).strip_prefix(point).ok());
    match below {
        Some(below) if mounts.len() > 1 && !below.as_os_str().is_empty() => format!("/{}", below.display()),
        _ => path.to_owned(),
    }
}

fn chosen(files: BTreeMap<String, Written>, wanted: Option<&str>) -> Result<(String, Written), Failure> {
    let names: Vec<String> = files.keys().cloned().collect();
    let fits = |name: &str| wanted.is_none_or(|wanted| name == wanted || Path::new(name).ends_with(wanted));
    let fitting = files.into_iter().filter(|(name, file)| fits(name) && !file.of_writer.is_empty());
    fitting.max_by_key(|(_, file)| file.bytes).ok_or_else(|| {
        let some: Vec<String> = names.into_iter().take(8).collect();
        Failure::failed(format!("nothing was recorded to be written to {}; there is {}", wanted.unwrap_or("a file"), some.join(", ")))
    })
}

/// The targets of each node: as said, as the store says, or as the recording does.
fn targets(arguments: &Arguments, mounts: &[(String, MountDescription)]) -> Result<BTreeMap<String, Vec<u32>>, Failure> {
    if !arguments.target_of_node.is_empty() {
        return Ok(arguments.target_of_node.iter().cloned().collect());
    }
    let mut targets: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    if let Ok(root) = arguments.store.path("/") {
        let session = Session::connect(&root.store, &arguments.store)?;
        let map = session.map();
        for entry in &map.targets {
            if let Some((_, server)) = map.target(entry.target) {
                targets.entry(server.node.clone()).or_default().push(entry.target.0);
            }
        }
        return Ok(targets);
    }
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
    if targets.is_empty() {
        return Err(Failure::usage(
            "which targets are on which node is not known: the recording has no mounted store. Name it with --store, or say --target-of-node NODE=TARGET,...",
        ));
    }
    Ok(targets)
}

type Placed = (Vec<Writer>, Vec<u32>, Vec<Part>);

/// Each writer's target: one of its node's, in turn.
fn placed(file: &Written, targets: &BTreeMap<String, Vec<u32>>) -> Result<Placed, Failure> {
    let mut turn: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut writers, mut target_of, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    let mut in_order: Vec<_> = file.of_writer.iter().collect();
    in_order.sort_by_key(|((name, _), _)| (name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned(), number_of(name)));
    for (index, ((name, node), ranges)) in in_order.into_iter().enumerate() {
        let of_node = targets.get(node).filter(|targets| !targets.is_empty()).ok_or_else(|| {
            let known: BTreeSet<&str> = targets.keys().map(String::as_str).collect();
            let known: Vec<&str> = known.into_iter().collect();
            Failure::failed(format!(
                "{name} ran on node {node}, which has no target: there are targets on {}. `thalweg serve` there, or say --target-of-node {node}=TARGET",
                known.join(", ")
            ))
        })?;
        let nth = turn.entry(node).or_default();
        let target = of_node[*nth % of_node.len()];
        *nth += 1;
        parts.extend(ranges.iter().map(|&(start, end)| Part { start, end, writer: index as u32 }));
        let bytes = ranges.iter().map(|(start, end)| end - start).sum();
        writers.push(Writer { name: name.clone(), node: node.clone(), target, bytes });
        target_of.push(target);
    }
    Ok((writers, target_of, parts))
}

fn number_of(name: &str) -> u64 {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    name[name.len() - digits..].parse().unwrap_or(0)
}

/// How the file is laid out now: as the store says, or the mount that it is on; with each datafile's target.
fn now(path: &str, arguments: &Arguments) -> Result<Option<(Layout, Vec<u32>)>, Failure> {
    if let (Ok(_), Some(file)) = (arguments.store.path("/"), &arguments.file)
        && let Ok(there) = arguments.store.path(file)
    {
        let session = Session::connect(&there.store, &arguments.store)?;
        if session.stat_if_there(&there.path)?.is_some() {
            let file = session.file_layout(&there)?;
            let targets: Vec<u32> = file.targets.iter().map(|target| target.0).collect();
            let layout = Layout::new(&file.spec, Some(targets.len() as u32), targets.len() as u32).map_err(Failure::failed)?;
            return Ok(Some((layout, targets)));
        }
    }
    let attribute = |name: &str| {
        let mut value = vec![0; 1 << 16];
        let length = rustix::fs::getxattr(path, name, &mut value).ok()?;
        String::from_utf8(value[..length.min(1 << 16)].to_vec()).ok()
    };
    let said = attribute("user.thalweg.layout").zip(attribute("user.thalweg.map"));
    Ok(said.and_then(|(layout, map)| laid_out(&layout, &map)))
}

/// How the file was laid out when the job closed it, as it said itself.
fn then(source: &dyn Source, path: &str) -> Option<(Layout, Vec<u32>)> {
    let said = |object: &thalweg_trace::Object| laid_out(attribute(object, "layout")?, attribute(object, "map")?);
    source.objects().iter().filter(|object| object.name == path).find_map(said)
}

/// What the job said of a file's bytes that are not local.
fn said(source: &dyn Source, path: &str, mounts: &[(String, MountDescription)]) -> Option<String> {
    let of_file = |object: &&thalweg_trace::Object| object.kind == ObjectKind::File && base(mounts, &object.name) == path;
    source.objects().iter().filter(of_file).find_map(|object| Some(attribute(object, "local")?.to_owned()))
}

/// A layout from what a mounted file says of it.
fn laid_out(layout: &str, map: &str) -> Option<(Layout, Vec<u32>)> {
    let targets: Option<Vec<u32>> = map.lines().map(|line| line.split_whitespace().nth(1)?.parse().ok()).collect();
    let spec = layout.split_whitespace().next().and_then(|spec| spec.parse::<Spec>().ok());
    let (spec, targets) = spec.zip(targets.filter(|targets| !targets.is_empty()))?;
    let count = targets.len() as u32;
    Some((Layout::new(&spec, Some(count), count).ok()?, targets))
}

/// The share of the writers' bytes that a layout has on targets of their nodes.
fn share(layout: &Layout, on: &[u32], parts: &[Part], writers: &[Writer], targets: &BTreeMap<String, Vec<u32>>) -> f64 {
    let (mut local, mut all) = (0_u64, 0_u64);
    for part in parts {
        let own = targets.get(&writers[part.writer as usize].node).map_or(&[][..], Vec::as_slice);
        all += part.end - part.start;
        let pieces = layout.pieces(part.start, part.end - part.start).take(MOST_RANGES);
        let mine = pieces.filter(|piece| on.get(piece.datafile as usize).is_some_and(|target| own.contains(target)));
        local += mine.map(|piece| piece.length).sum::<u64>();
    }
    local as f64 / all.max(1) as f64
}

fn document(file: String, size_bytes: u64, writers: Vec<Writer>, local_now: Option<f64>, plan: &Plan) -> Document {
    let list: Vec<String> = plan.targets.iter().map(u32::to_string).collect();
    let place = format!("targets:{}", list.join(","));
    let hints = [
        ("distribution_name", "varstrip_dist".to_owned()),
        ("varstrip_dist:string:strips", plan.strips.clone()),
        ("thalweg_placement", place.clone()),
    ];
    Document {
        schema: "thalweg.layout-plan/1",
        file,
        size_bytes,
        writers,
        local_now,
        said: None,
        local_then: plan.local_bytes as f64 / plan.claimed_bytes.max(1) as f64,
        layout: format!("varstrip_dist,strips={}", plan.strips),
        place,
        datafiles: plan.targets.len(),
        hints: hints.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
    }
}

fn text(document: &Document, plan: &Plan, elsewhere: u64) -> String {
    let mut text = format!("{}: {} written by {} writers\n\n", document.file, size::text(document.size_bytes), document.writers.len());
    let rows: Vec<Vec<String>> = document
        .writers
        .iter()
        .map(|writer| vec![writer.name.clone(), writer.node.clone(), writer.target.to_string(), size::text(writer.bytes)])
        .collect();
    text.push_str(&output::table(&["writer", "node", "target", "bytes"], &rows));
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let now = document.local_now.map_or_else(|| "not known (the file is on no mounted store here)".to_owned(), percent);
    text.push_str(&format!("\nlocal now:  {now}\nlocal then: {}\n", percent(document.local_then)));
    if let Some(said) = &document.said {
        text.push_str(&format!("The job said: {said}\n"));
    }
    if elsewhere > 0 {
        text.push_str(&format!(
            "Of {} more it was not recorded where in the file they went (shared file pointers, views of very many pieces).\n",
            size::text(elsewhere)
        ));
    }
    text.push_str("\nMPI hints (MPI_Info_set before MPI_File_open):\n");
    for (key, value) in &document.hints {
        text.push_str(&format!("  {key} = {value}\n"));
    }
    let layout = format!("{} datafiles={} place={}", document.layout, document.datafiles, document.place);
    text.push_str(&format!("\nExtended attribute, before the first byte:\n  setfattr -n user.thalweg.layout -v '{layout}' FILE\n"));
    text.push_str(&format!("\nCopying:\n  thalweg cp --layout '{}' --place {} FROM TO\n", document.layout, document.place));
    if plan.strips.len() > 4096 {
        text.push_str("\nThe strips are many; `thalweg_layout=local` computes them when the job runs.\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_says_which_bytes_a_write_went_to() {
        let view = View::read("100,40:0+10,20+10").unwrap();
        let mut found = Vec::new();
        view.ranges(100, 25, &mut found);
        assert_eq!(found, [(100, 110), (120, 130), (140, 145)]);
        found.clear();
        view.ranges(145, 10, &mut found);
        assert_eq!(found, [(145, 150), (160, 165)], "it goes on where the last one ended");
        let late = View::read("0,40:30+10,60+10").unwrap();
        found.clear();
        late.ranges(30, 40, &mut found);
        assert_eq!(found, [(30, 40), (60, 80), (100, 110)], "a type that begins late goes over its extent");
        let dense = View::read("0,1:0+1").unwrap();
        found.clear();
        dense.ranges(7, 5, &mut found);
        assert_eq!(found, [(7, 12)]);
        assert!(View::read("0,0:0+1").is_none() && View::read("0,8:").is_none() && View::read("x").is_none());
    }

    #[test]
    fn what_targets_a_node_has_is_read() {
        assert_eq!(targets_of_node("a=0,3"), Ok(("a".to_owned(), vec![0, 3])));
        assert!(targets_of_node("a").is_err() && targets_of_node("=1").is_err() && targets_of_node("a=x").is_err());
    }

    #[test]
    fn ranks_are_in_the_order_of_their_numbers() {
        let mut file = Written::default();
        for rank in [10, 2, 1] {
            file.of_writer.insert((format!("rank {rank}"), "n".into()), vec![(rank * 8, rank * 8 + 8)]);
        }
        let targets = BTreeMap::from([("n".to_owned(), vec![4, 5])]);
        let Ok((writers, target_of, _)) = placed(&file, &targets) else { panic!("refused") };
        assert_eq!(writers.iter().map(|w| w.name.as_str()).collect::<Vec<_>>(), ["rank 1", "rank 2", "rank 10"]);
        assert_eq!(target_of, [4, 5, 4]);
        file.of_writer.insert(("rank 3".into(), "elsewhere".into()), vec![(0, 8)]);
        assert!(placed(&file, &targets).is_err(), "a node without a target");
    }
}
