//! Turns a requested layout into the targets of a new file's datafiles. Pure: invalid requests are refused here, before anything is
//! created.

use thalweg_layout::{Layout, Spec};
use thalweg_wire::protocol::lots::Lot;
use thalweg_wire::protocol::metadata::{FileLayout, LayoutChoice, Placement, StoreMap, TargetEntry, TargetId};
use thalweg_wire::{Error, ErrorKind, Result};

/// The default strip size, equal to the default size of a flow buffer, so that a buffer is one piece of the file.
pub(crate) const DEFAULT_STRIP_BYTES: u64 = 1 << 20;

/// Bound: total bytes of the names and parameters of a layout choice. A varstrip of a thousand strips takes a tenth of it.
const CHOICE_BYTES: usize = 128 << 10;

/// Returns the store's default distribution.
pub(crate) fn default_spec() -> Spec {
    Spec::new("simple_stripe").with("strip_size", DEFAULT_STRIP_BYTES)
}

/// Returns the layout of a new file: as requested, then as its directory specifies, then the store's default. `node` is the writer's;
/// `random` picks the first target unless something else does. A file in a lot uses only the lot's targets; the caller determines the lot.
///
/// # Errors
/// The distribution or a parameter is invalid, or the required targets do not exist.
pub(crate) fn place(
    asked: &LayoutChoice,
    inherited: Option<&LayoutChoice>,
    (map, lot): (&StoreMap, Option<&Lot>),
    node: &str,
    random: u64,
) -> Result<FileLayout> {
    check_size(asked)?;
    let own_spec = asked.spec.is_some();
    let spec = asked.spec.as_ref().or(inherited.and_then(|c| c.spec.as_ref())).cloned().unwrap_or_else(default_spec);
    // A number of datafiles applies only to the distribution it was given with.
    let inherited_datafiles = inherited.filter(|c| !own_spec || c.spec.is_none()).and_then(|c| c.datafiles);
    let datafiles = asked.datafiles.or(inherited_datafiles);
    let placement = asked.placement.as_ref().or(inherited.and_then(|c| c.placement.as_ref()));
    let placement = placement.cloned().unwrap_or(Placement::RoundRobin { first: None });
    let (candidates, start, requested) = candidates(&placement, datafiles, (map, lot), node, random)?;
    let layout = Layout::new(&spec, requested, u32::try_from(candidates.len()).unwrap_or(u32::MAX))
        .map_err(|e| Error::new(ErrorKind::Invalid, e.to_string()))?;
    let count = layout.num_datafiles() as usize;
    if count > thalweg_wire::limits::DATAFILES {
        return Err(Error::new(ErrorKind::Invalid, format!("{count} datafiles: a file has at most {}", thalweg_wire::limits::DATAFILES)));
    }
    if matches!(placement, Placement::Targets(_)) && count != candidates.len() {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("{} has {count} datafiles here and {} targets are listed: list one for each", spec.name, candidates.len()),
        ));
    }
    let targets = (0..count).map(|i| candidates[(start + i) % candidates.len()]).collect();
    Ok(FileLayout { spec: layout.spec(), targets, lot: lot.map(|lot| lot.id) })
}

/// Iterates over the targets in round-robin order: the first of every server, then the second.
fn in_turn(map: &StoreMap) -> impl Iterator<Item = &TargetEntry> {
    let mut seen = vec![0_u32; map.servers.len()];
    let mut order: Vec<(u32, &TargetEntry)> = Vec::with_capacity(map.targets.len());
    for target in &map.targets {
        let turn = seen.get_mut(target.server as usize).map_or(0, |n| {
            *n += 1;
            *n
        });
        order.push((turn, target));
    }
    order.sort_by_key(|(turn, target)| (*turn, target.server));
    order.into_iter().map(|(_, target)| target)
}

/// Returns the candidate targets, the index of the first, and the requested number of datafiles.
fn candidates(
    placement: &Placement,
    datafiles: Option<u32>,
    (map, lot): (&StoreMap, Option<&Lot>),
    node: &str,
    random: u64,
) -> Result<(Vec<TargetId>, usize, Option<u32>)> {
    let in_lot = |target: TargetId| lot.is_none_or(|lot| lot.shares.iter().any(|(of_lot, _)| *of_lot == target));
    let all = || in_turn(map).map(|t| t.target).filter(|target| in_lot(*target)).collect::<Vec<_>>();
    let unknown = |target: &TargetId| {
        let known = all().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let problem = match lot.filter(|_| map.target(*target).is_some()) {
            Some(lot) => format!("target {target} is not one of lot `{}`, which has the targets {known}", lot.name),
            None => format!("there is no target {target}: the store has the targets {known}"),
        };
        Error::new(ErrorKind::Invalid, problem)
    };
    let anywhere = |targets: &[TargetId]| (random % targets.len().max(1) as u64) as usize;
    match placement {
        Placement::RoundRobin { first: None } => {
            let targets = all();
            let start = anywhere(&targets);
            Ok((targets, start, datafiles))
        }
        Placement::RoundRobin { first: Some(first) } => {
            let targets = all();
            let start = targets.iter().position(|t| t == first).ok_or_else(|| unknown(first))?;
            Ok((targets, start, datafiles))
        }
        Placement::Targets(list) => {
            if let Some(stranger) = list.iter().find(|t| map.target(**t).is_none() || !in_lot(**t)) {
                return Err(unknown(stranger));
            }
            if let Some(count) = datafiles
                && count as usize != list.len()
            {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    format!("{count} datafiles are requested but {} targets are listed: list one target for each", list.len()),
                ));
            }
            Ok((list.clone(), 0, datafiles))
        }
        Placement::Local => {
            let here = |t: &&TargetEntry| map.servers.get(t.server as usize).is_some_and(|s| s.node == node);
            let of_node: Vec<TargetId> = in_turn(map).filter(here).map(|t| t.target).collect();
            let targets: Vec<TargetId> = of_node.iter().copied().filter(|target| in_lot(*target)).collect();
            if let Some(lot) = lot.filter(|_| targets.is_empty() && !of_node.is_empty()) {
                let problem = format!("lot `{}` has no target on the node `{node}`: choose another placement with --place", lot.name);
                return Err(Error::new(ErrorKind::Invalid, problem));
            }
            if targets.is_empty() {
                let mut labels: Vec<&str> = map.servers.iter().map(|s| s.node.as_str()).collect();
                labels.sort_unstable();
                labels.dedup();
                return Err(Error::new(
                    ErrorKind::Invalid,
                    format!("no server is on the node `{node}`: choose one of {} with --node or THALWEG_NODE", labels.join(", ")),
                ));
            }
            let start = anywhere(&targets);
            Ok((targets, start, datafiles))
        }
    }
}

/// Checks that a choice can be a directory's default: its size, and that it is possible now.
///
/// # Errors
/// Those of [`place`].
pub(crate) fn check(choice: &LayoutChoice, map: &StoreMap, lot: Option<&Lot>) -> Result<()> {
    // `local` can only be checked for a given writer.
    let anywhere = LayoutChoice { placement: choice.placement.clone().filter(|p| *p != Placement::Local), ..choice.clone() };
    place(&anywhere, None, (map, lot), "", 0).map(|_| ())
}

fn check_size(choice: &LayoutChoice) -> Result<()> {
    let spec = choice.spec.iter().flat_map(|s| s.parameters.iter().map(|(k, v)| k.len() + v.len() + 2));
    let bytes: usize = spec.sum::<usize>() + choice.spec.as_ref().map_or(0, |s| s.name.len());
    if bytes > CHOICE_BYTES {
        return Err(Error::new(ErrorKind::Invalid, format!("a layout's parameters of {bytes} bytes: expected at most {CHOICE_BYTES}")));
    }
    if let Some(Placement::Targets(list)) = &choice.placement
        && list.len() > thalweg_wire::limits::DATAFILES
    {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("{} targets are listed: a file has at most {} datafiles", list.len(), thalweg_wire::limits::DATAFILES),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_wire::protocol::lots::LotState;
    use thalweg_wire::protocol::metadata::{LotId, ServerEntry};

    fn map() -> StoreMap {
        let server = |i: u32| ServerEntry { name: format!("io{i}"), node: format!("n{}", i / 2), address: String::new() };
        let target = |i: u32| TargetEntry { target: TargetId(i), server: i, directory: String::new() };
        StoreMap { store: 1, servers: (0..4).map(server).collect(), targets: (0..4).map(target).collect() }
    }

    fn numbers(layout: &FileLayout) -> Vec<u32> {
        layout.targets.iter().map(|t| t.0).collect()
    }

    fn asked(spec: Option<Spec>, datafiles: Option<u32>, placement: Option<Placement>) -> LayoutChoice {
        LayoutChoice { spec, datafiles, placement, lot: None }
    }

    #[test]
    fn round_robin_starts_where_it_is_asked_to_or_anywhere() {
        let first = Placement::RoundRobin { first: Some(TargetId(2)) };
        let layout = place(&asked(None, Some(3), Some(first)), None, (&map(), None), "n0", 0).unwrap();
        assert_eq!(numbers(&layout), [2, 3, 0]);
        let layout = place(&LayoutChoice::default(), None, (&map(), None), "n0", 7).unwrap();
        assert_eq!(numbers(&layout), [3, 0, 1, 2]);
        assert_eq!(layout.spec.get("strip_size"), Some("1048576"));
    }

    #[test]
    fn local_is_on_the_writers_node_or_an_error_that_names_the_nodes() {
        let choice = asked(None, None, Some(Placement::Local));
        let layout = place(&choice, None, (&map(), None), "n1", 1).unwrap();
        assert_eq!(numbers(&layout), [3, 2]);
        let error = place(&choice, None, (&map(), None), "elsewhere", 1).unwrap_err();
        assert!(error.message().contains("n0, n1"), "{error}");
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_name() {
        let text = |choice: LayoutChoice| place(&choice, None, (&map(), None), "n0", 0).unwrap_err().to_string();
        assert!(text(asked(None, Some(5), None)).contains("5 datafiles requested, but there are only 4 targets"));
        assert!(text(asked(Some(Spec::new("stripey")), None, None)).contains("unknown distribution `stripey`"));
        assert!(text(asked(Some(Spec::new("simple_stripe").with("strip_size", "0")), None, None)).contains("strip_size"));
        assert!(text(asked(None, None, Some(Placement::Targets(vec![TargetId(9)])))).contains("no target 9"));
        let two = Placement::Targets(vec![TargetId(0), TargetId(1)]);
        assert!(text(asked(None, Some(3), Some(two))).contains("3 datafiles are requested but 2 targets"));
        let huge = Spec::new("varstrip_dist").with("strips", "0:1;".repeat(100_000));
        assert!(text(asked(Some(huge), None, None)).contains("at most"));
    }

    #[test]
    fn a_file_in_a_lot_is_on_the_lots_targets_only() {
        let lot = Lot {
            id: LotId(7),
            name: "run".into(),
            owner: "alice".into(),
            size_bytes: 8192,
            created_ns: 0,
            until_ns: 1,
            elastic: false,
            least: None,
            state: LotState::Active,
            shares: vec![(TargetId(3), 4096), (TargetId(1), 4096)],
        };
        let place = |choice: &LayoutChoice, node: &str, random| place(choice, None, (&map(), Some(&lot)), node, random);
        for random in 0..4 {
            let layout = place(&LayoutChoice::default(), "n0", random).unwrap();
            assert_eq!((layout.lot, layout.targets.len()), (Some(LotId(7)), 2));
            assert!(numbers(&layout).iter().all(|target| [1, 3].contains(target)));
            assert_eq!(numbers(&place(&asked(None, None, Some(Placement::Local)), "n0", random).unwrap()), [1]);
        }
        let text = |choice: LayoutChoice, node: &str| place(&choice, node, 0).unwrap_err().to_string();
        assert!(text(asked(None, Some(3), None), "n0").contains("3 datafiles requested, but there are only 2 targets"));
        let outside = Placement::Targets(vec![TargetId(1), TargetId(2)]);
        assert!(text(asked(None, None, Some(outside)), "n0").contains("target 2 is not one of lot `run`, which has the targets 1, 3"));
        let first = Placement::RoundRobin { first: Some(TargetId(0)) };
        assert!(text(asked(None, None, Some(first)), "n0").contains("target 0 is not one of lot `run`"));
        let mut narrow = lot.clone();
        narrow.shares.pop();
        let choice = asked(None, None, Some(Placement::Local));
        let error = super::place(&choice, None, (&map(), Some(&narrow)), "n0", 0).unwrap_err().to_string();
        assert!(error.contains("lot `run` has no target on the node `n0`"), "{error}");
    }

    #[test]
    fn a_directory_gives_what_is_not_asked() {
        let inherited = asked(Some(Spec::new("varstrip_dist").with("strips", "0:1K;1:2K")), None, None);
        let layout = place(&LayoutChoice::default(), Some(&inherited), (&map(), None), "n0", 0).unwrap();
        assert_eq!((layout.spec.name.as_str(), layout.targets.len()), ("varstrip_dist", 2));
        let layout = place(&asked(Some(Spec::new("basic_dist")), None, None), Some(&inherited), (&map(), None), "n0", 0).unwrap();
        assert_eq!((layout.spec.name.as_str(), layout.targets.len()), ("basic_dist", 1));
    }
}
