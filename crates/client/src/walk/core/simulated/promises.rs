//! Invariants of the core, and the number of round trips a walk takes.

use super::*;

fn options() -> impl Strategy<Value = WalkOptions> {
    let modes = prop::sample::select(WalkMode::ALL.to_vec());
    let details = prop::sample::select(vec![Detail::Names, Detail::Attributes, Detail::Sizes, Detail::Sizes, Detail::Sizes]);
    (modes, details, 1_u32..40, 1_u32..200, 1_u32..100, 1_u32..6, 1_u32..60).prop_map(
        |(mode, detail, window_start, window_most, page_names, requests_per_server, datafiles_per_request)| WalkOptions {
            mode,
            detail,
            window_start,
            window_most,
            page_names,
            requests_per_server,
            datafiles_per_request,
            timeout: None,
        },
    )
}

fn settings() -> impl Strategy<Value = Setting> {
    let network = (1000_u64..20 * MS, 0_u64..20 * MS, 0_u64..50_000);
    let store = (0_u32..150, 1_u32..5, 1_u32..9, 0_u32..80);
    (any::<u64>(), store, network, options()).prop_map(
        |(seed, (files, servers, datafiles, changes), (way_ns, jitter_ns, work_ns), options)| Setting {
            seed,
            files,
            servers,
            datafiles,
            way_ns,
            jitter_ns,
            work_ns,
            changes,
            silent: None,
            closes: None,
            timeout_ns: 10_000 * MS,
            options,
        },
    )
}

/// Picks the metadata service or one of the servers.
fn peer(number: u32, setting: &Setting) -> Peer {
    if number == 0 { Peer::Metadata } else { Peer::Io((number % setting.servers) as usize) }
}

/// Checks that memory is bounded by the window, and requests by their limits.
fn within_bounds(world: &World, walks: usize) -> Result<(), TestCaseError> {
    let options = &world.core.options;
    prop_assert!(world.most_in_flight <= options.requests_per_server, "{} in flight", world.most_in_flight);
    prop_assert!(world.requests.iter().all(|(_, many)| *many <= options.datafiles_per_request as usize));
    let window = walks * options.window_most as usize;
    prop_assert!(world.most_held.0 <= window, "{} items in a window of {window}", world.most_held.0);
    let most = window * (1 + world.setting.datafiles as usize) + 64;
    prop_assert!(world.most_held.1 <= most, "{} held for {most}", world.most_held.1);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn a_walk_returns_what_was_there_whatever_changes_under_it(setting in settings()) {
        let mut world = World::new(setting);
        let begun = world.now_ns;
        let (read, _) = world.list_all();
        world.check(&read, begun, None)?;
        within_bounds(&world, 1)?;
        let counters = world.core.counters();
        prop_assert_eq!(counters.entries, read.len() as u64);
        prop_assert_eq!(counters.hits + counters.misses, counters.entries);
        prop_assert_eq!(counters.requests, world.requests.len() as u64);
        // Pages after the last one may be in flight.
        while world.step() {}
        prop_assert_eq!(world.core.held(), (0, 0), "nothing is left of a walk that was read to its end");
    }

    #[test]
    fn a_silent_server_costs_one_timeout_and_its_files_their_sizes(setting in settings(), server in 0_u32..5, at in 0_u64..100) {
        let mut setting = Setting { changes: 0, ..setting };
        let server = server % setting.servers;
        // A timeout is much longer than everything else.
        setting.timeout_ns *= 1000;
        setting.silent = Some((Peer::Io(server as usize), 10_000 * MS + at * setting.way_ns / 4));
        let mut world = World::new(setting);
        let begun = world.now_ns;
        let (read, took) = world.list_all();
        world.check(&read, begun, Some(server))?;
        prop_assert!(took < 2 * world.setting.timeout_ns, "{} ms", took / MS);
        prop_assert!(world.connection.values().map(|count| count - 1).sum::<u64>() <= 1, "the server was asked again");
        within_bounds(&world, 1)?;
    }

    #[test]
    fn a_metadata_service_that_falls_silent_ends_the_walk_after_one_timeout_and_what_was_known_comes_first(
        setting in settings(),
        at in 0_u64..100,
    ) {
        let mut setting = Setting { changes: 0, timeout_ns: 1000 * setting.timeout_ns, ..setting };
        setting.silent = Some((Peer::Metadata, 10_000 * MS + at * setting.way_ns / 4));
        let mut world = World::new(setting);
        let group = world.core.new_group();
        let walk = world.core.open(FilePath::at("/"), None, group, 0);
        let (mut read, begun) = (Vec::new(), world.now_ns);
        let ended = loop {
            match world.read(walk, 64) {
                Ok(some) if some.is_empty() => break None,
                Ok(some) => read.extend(some),
                Err(error) => break Some(error),
            }
        };
        prop_assert!(read.windows(2).all(|pair| pair[0].name < pair[1].name));
        prop_assert!(read.iter().all(|entry| entry.size.as_ref().is_none_or(|size| size.is_ok())));
        prop_assert!(ended.is_some() || read.len() == world.files.len());
        prop_assert!(world.now_ns - begun < 2 * world.setting.timeout_ns, "one timeout");
        prop_assert!(world.read(walk, 1).unwrap().is_empty(), "it has ended");
        let ticket = world.core.stat(FileId(1000), world.now_ns);
        while world.core.stat_outcome(ticket).is_none() {
            world.send();
            prop_assert!(world.step(), "a single file is never answered");
        }
        world.core.close(walk);
        prop_assert_eq!(world.core.held(), (0, 0));
    }

    #[test]
    fn a_connection_that_is_closed_once_is_not_noticed(setting in settings(), server in 0_u32..5, at in 0_u64..100) {
        let mut setting = setting;
        setting.closes = Some((peer(server, &setting), 10_000 * MS + at * setting.way_ns / 4));
        let mut world = World::new(setting);
        let begun = world.now_ns;
        let (read, _) = world.list_all();
        world.check(&read, begun, None)?;
    }

    #[test]
    fn walks_that_are_left_leave_nothing_behind_and_single_files_join_them(
        setting in settings(),
        deeds in prop::collection::vec((0_u8..8, any::<u16>()), 1..60),
    ) {
        let mut world = World::new(Setting { timeout_ns: 1000 * setting.timeout_ns, ..setting });
        let mut walks: Vec<(WalkId, Vec<u8>)> = Vec::new();
        let mut tickets = Vec::new();
        let mut most = 0;
        for (deed, number) in deeds {
            match deed {
                0 | 1 if walks.len() < 4 => {
                    let group = world.core.new_group();
                    let walk = world.core.open(FilePath::at("/"), None, group, 0);
                    if deed == 1 {
                        world.core.start(walk, u32::from(number));
                    }
                    walks.push((walk, Vec::new()));
                    most = most.max(walks.len());
                }
                2 | 3 if !walks.is_empty() => {
                    let at = usize::from(number) % walks.len();
                    let some = world.read(walks[at].0, usize::from(number % 50) + 1).unwrap();
                    for entry in some {
                        prop_assert!(entry.name > walks[at].1);
                        walks[at].1 = entry.name;
                    }
                }
                4 if !walks.is_empty() => world.core.close(walks.swap_remove(usize::from(number) % walks.len()).0),
                5 if !world.files.is_empty() => {
                    let file = usize::from(number) % world.files.len();
                    tickets.push((world.core.stat(world.files[file].attributes.id, world.now_ns), file, world.now_ns));
                }
                6 => world.now_ns += u64::from(number) * MS / 10,
                _ => {
                    world.send();
                    world.step();
                }
            }
            world.send();
        }
        for (ticket, file, begun) in tickets {
            let known = loop {
                if let Some(known) = world.core.stat_outcome(ticket) {
                    break known;
                }
                world.send();
                prop_assert!(world.step(), "a single file is never answered");
            };
            let file = &world.files[file];
            match known {
                Ok(known) => {
                    prop_assert_eq!(known.attributes.id, file.attributes.id);
                    let from = begun.saturating_sub(STALE_NS).min(known.asked.duration_since(world.epoch).as_nanos() as u64);
                    let is_calm = file.sizes.iter().filter(|(at, _)| *at >= from).count() <= 1;
                    if let (Some(size), true) = (known.size, is_calm) {
                        prop_assert!(file.had(size.size_bytes, from, world.now_ns));
                    }
                }
                Err(error) => prop_assert!(file.unlinked_ns.is_some(), "{}", error),
            }
        }
        walks.iter().for_each(|(walk, _)| world.core.close(*walk));
        while world.step() {
            world.send();
        }
        prop_assert_eq!(world.core.held(), (0, 0));
        prop_assert!(world.core.flights.is_empty() && !world.core.has_requests());
        prop_assert_eq!(world.core.groups.len(), 0);
        within_bounds(&world, most + 64)?;
    }
}

/// Returns the round trips of 1 ms that a walk of this many files took.
fn round_trips(files: u32, datafiles: u32, options: WalkOptions) -> (f64, WalkCounters) {
    let mut world = World::new(Setting { options, ..Setting::plain(files, datafiles) });
    let (read, took) = world.list_all();
    assert_eq!(read.len(), files as usize);
    (took as f64 / MS as f64, world.core.counters())
}

#[test]
fn one_file_at_a_time_takes_two_round_trips_for_each_and_one_for_each_page() {
    let options = WalkOptions { mode: WalkMode::Synchronous, page_names: 100, ..WalkOptions::default() };
    for datafiles in [1, 8] {
        // Long enough for datafiles to be quiet: each file is known to exist a moment before its sizes are requested.
        let mut world = World::new(Setting { options: options.clone(), ..Setting::plain(1500, datafiles) });
        let files = world.files.iter().filter(|file| file.attributes.kind == FileKind::File).count() as u64;
        let (_, took) = world.list_all();
        let counters = world.core.counters();
        let directories = 1500 - files;
        // Pages of names are prefetched, except the first.
        assert_eq!(took / MS, 1 + 2 * files + directories, "{datafiles} datafiles");
        assert_eq!((counters.hits, counters.misses), (0, 1500));
        assert_eq!(counters.round_trips, 1 + 2 * files + directories);
    }
}

#[test]
fn ahead_of_the_reader_round_trips_are_those_of_windows_and_32_datafiles_cost_no_more_than_1() {
    for window in [8_u32, 32, 128, 1024] {
        let options = WalkOptions { mode: WalkMode::GlimpseAhead, window_start: window, window_most: window, ..WalkOptions::default() };
        let (one, _) = round_trips(4000, 1, options.clone());
        let (many, counters) = round_trips(4000, 32, options);
        // Half a window is requested while the other half is read: one round trip per half, and one for its sizes at the end.
        let halves = 4000.0 / f64::from(window / 2);
        assert!(one <= 2.0 * halves + 4.0 && one >= halves, "{one} round trips with a window of {window}");
        assert!((many - one).abs() <= 2.0, "{many} round trips with 32 datafiles, {one} with one");
        assert!((counters.round_trips as f64 - many).abs() <= 2.0, "{} counted, {many} taken", counters.round_trips);
    }
}

#[test]
fn a_window_grows_until_pages_are_large_and_sizes_that_are_proved_cost_nothing() {
    let (took, counters) = round_trips(10_000, 4, WalkOptions { mode: WalkMode::GlimpseAhead, ..WalkOptions::default() });
    assert!(took <= 10.0, "{took} round trips");
    assert_eq!(counters.window, WalkOptions::default().window_most);
    assert_eq!(counters.misses, 1, "the first one");
    let mut world = World::new(Setting::plain(10_000, 4));
    world.files.iter_mut().for_each(|file| file.is_settled = true);
    let (_, took) = world.list_all();
    assert!(took / MS <= 6, "{} round trips", took / MS);
    assert_eq!(world.core.counters().glimpsed, 0);
}

#[test]
fn the_first_entry_comes_after_two_round_trips_however_many_there_are() {
    let mut world = World::new(Setting {
        options: WalkOptions { mode: WalkMode::GlimpseAhead, ..WalkOptions::default() },
        ..Setting::plain(10_000, 4)
    });
    let group = world.core.new_group();
    let walk = world.core.open(FilePath::at("/"), None, group, 0);
    let begun = world.now_ns;
    world.read(walk, 1).unwrap();
    assert!(world.now_ns - begun <= 2 * MS);
    assert!(world.most_held.0 <= WalkOptions::default().window_start as usize);
}

#[test]
fn what_a_reader_has_left_for_long_is_asked_for_again_and_comes_once() {
    let mut world = World::new(Setting::plain(1000, 2));
    let group = world.core.new_group();
    let walk = world.core.open(FilePath::at("/"), None, group, 0);
    let mut names = Vec::new();
    loop {
        let some = world.read(walk, 10).unwrap();
        if some.is_empty() {
            break;
        }
        for entry in some {
            assert!(world.now_ns - world.asked_ns(&entry) < STALE_NS, "it is older than a reader may be away");
            names.push(entry.name);
        }
        if names.len() % 100 < 10 {
            world.now_ns += STALE_NS + MS;
        }
    }
    assert_eq!(names.len(), 1000);
    assert!(names.is_sorted());
    assert!(world.core.counters().wasted > 0);
}

/// Reads a directory of `names` entries that a simulated service generates on request; returns the most memory held.
fn read_made_up(names: u64, options: WalkOptions) -> ((usize, usize), WalkCounters) {
    let map = StoreMap {
        store: 1,
        servers: vec![ServerEntry { name: "io0".into(), node: String::new(), address: String::new() }],
        targets: vec![TargetEntry { target: TargetId(0), server: 0, directory: String::new() }],
    };
    let layout = Arc::new(FileLayout { spec: spec(), targets: vec![TargetId(0)], lot: None });
    let mut next = 0;
    let mut answer = |ask: Ask| match ask {
        Ask::List { after, most, .. } => {
            let from = match after {
                After::Nothing => 0,
                After::Name(name) => String::from_utf8(name).unwrap().parse::<u64>().unwrap() + 1,
                After::Page => next,
            };
            let to = (from + u64::from(most)).min(names);
            let entry = |number: u64| DirectoryEntry {
                name: Name::new(format!("{number:08}")).unwrap(),
                id: FileId(1000 + number),
                kind: FileKind::File,
                attributes: Some(Attributes { id: FileId(1000 + number), layout: Some(Arc::clone(&layout)), ..plain_attributes() }),
            };
            next = to;
            Answer::Page((from..to).map(entry).collect(), to < names)
        }
        Ask::Glimpse { datafiles } => {
            let size = |id: &DatafileId| DatafileSize { size_bytes: id.file.0, allocated_bytes: 0, quiet: true };
            Answer::Sizes(datafiles.iter().map(size).collect())
        }
        Ask::Stat { .. } => panic!("no single file was requested"),
    };
    let mut core = Core::new(&map, options, Instant::now());
    let group = core.new_group();
    let walk = core.open(FilePath::at("/"), None, group, 0);
    let (mut into, mut read, mut most, mut unanswered) = (VecDeque::new(), 0, (0, 0), VecDeque::new());
    loop {
        let taken = core.take(walk, 64, &mut into, 0);
        while let Some(request) = core.next_request(0) {
            unanswered.push_back(request);
        }
        let held = core.held();
        most = (most.0.max(held.0 + into.len()), most.1.max(held.1));
        match taken {
            Taken::Some => {
                for entry in into.drain(..) {
                    assert_eq!((entry.id.0, entry.size.unwrap().unwrap().size_bytes), (1000 + read, 1000 + read));
                    read += 1;
                }
            }
            Taken::Wait => {
                let request: Request = unanswered.pop_front().expect("something is on its way");
                core.answered(request.token, Ok(answer(request.ask)), 0);
            }
            Taken::End => break,
            Taken::Failed(error) => panic!("{error}"),
        }
    }
    assert_eq!(read, names);
    (most, core.counters())
}

#[test]
fn a_million_entries_are_read_within_the_window() {
    let options = WalkOptions::default();
    let (held, counters) = read_made_up(1_000_000, options.clone());
    assert!(held.0 <= options.window_most as usize + 64, "{} entries", held.0);
    assert!(held.1 <= 2 * options.window_most as usize + 64, "{} other things", held.1);
    assert_eq!((counters.entries, counters.wasted), (1_000_000, 0));
    let few = WalkOptions { window_most: 100, ..options };
    assert!(read_made_up(50_000, few).0.0 <= 164);
}
