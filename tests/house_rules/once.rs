//! Utilities exist once, in `crates/base`: readers of /proc, wrapping, quoting, ticks, name patterns, units of time.

use std::path::Path;

/// Files in /proc, by the last component of their paths, that only `crates/base/src/proc` may read.
const READ_ONCE: [&str; 6] = ["mountinfo", "mounts", "stat", "status", "maps", "cgroup"];

/// The folder of their readers.
const READERS: &str = "crates/base/src/proc";

/// Signs of a duplicate; the files where they are allowed or mean something else; what to use.
const ONCE: &[(&str, &[&str], &str)] = &[
    (r#"r"'\''"#, &[], "thalweg_base::shell"),
    (r"'\\''", &["crates/base/src/shell.rs"], "thalweg_base::shell"),
    ("chars().count() + 1 +", &[], "thalweg_base::text::wrap"),
    ("unicode_width", &["crates/base/src/text.rs"], "thalweg_base::text"),
    ("clock_ticks_per_second", &["crates/base/src/proc/stat.rs"], "thalweg_base::proc::stat::tick_ns"),
    ("_SC_CLK_TCK", &[], "thalweg_base::proc::stat::tick_ns"),
    ("const TICK_NS", &[], "thalweg_base::proc::stat::tick_ns"),
    // (The first bytes of HTTP/2 contain a star.)
    ("b'*'", &["crates/base/src/glob.rs", "crates/record/src/capture/sniff.rs"], "thalweg_base::glob"),
    (r#"strip_suffix("ms")"#, &[], "thalweg_base::numbers::parse_duration"),
    (r#""min" =>"#, &["crates/base/src/numbers.rs"], "thalweg_base::numbers::parse_duration"),
];

/// The allowed dependencies of base, which the recorders' fast paths and the clients load.
const MAY_STAND_ON: [&str; 4] = ["libc", "parking_lot", "rustix", "unicode-width"];

/// Calls `seen` with the lines of the crates and their examples, without comments and unit tests.
fn lines(seen: &mut dyn FnMut(&Path, usize, &str)) {
    super::sources(&mut |path, language, text| {
        let is_test = |part: &str| part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs");
        let is_tested = path.components().filter_map(|part| part.as_os_str().to_str()).any(is_test);
        if language != super::Language::Rust || !path.starts_with("crates") || is_tested {
            return;
        }
        for (at, line) in text.lines().enumerate().take_while(|(_, line)| *line != "#[cfg(test)]") {
            if !line.trim_start().starts_with("//") {
                seen(path, at + 1, line);
            }
        }
    });
}

/// Returns the file of /proc that a line reads by its path, if it is reserved for its reader.
fn read_by(line: &str) -> Option<&str> {
    let literals = line.split('"').skip(1).step_by(2);
    let files = literals.filter(|literal| literal.starts_with("/proc/")).filter_map(|literal| literal.rsplit('/').next());
    files.into_iter().find(|file| READ_ONCE.contains(file))
}

#[test]
fn each_file_of_proc_has_one_reader() {
    let (mut others, mut ours) = (Vec::new(), Vec::new());
    lines(&mut |path, at, line| {
        if let Some(file) = read_by(line) {
            match path.starts_with(READERS) {
                true => ours.push((path.to_owned(), file.to_owned())),
                false => others.push(format!("{}:{at} reads {file}", path.display())),
            }
        }
    });
    assert_eq!(others, Vec::<String>::new(), "use the reader in {READERS}");
    for (file, reader) in [("mountinfo", "mounts"), ("stat", "stat"), ("status", "status"), ("maps", "maps"), ("cgroup", "cgroups")] {
        assert!(ours.contains(&(Path::new(READERS).join(format!("{reader}.rs")), file.to_owned())), "{ours:?}");
    }
}

#[test]
fn readers_are_known_from_the_path_they_read() {
    assert_eq!(read_by(r#"fs::read(format!("/proc/{pid}/mountinfo"))"#), Some("mountinfo"));
    assert_eq!(read_by(r#"open("/proc/self/mounts")"#), Some("mounts"));
    assert_eq!(read_by(r#"open("/proc/thread-self/schedstat"); join("stat")"#), None);
}

#[test]
fn what_every_room_needs_stands_once() {
    let (mut again, mut found) = (Vec::new(), vec![0; ONCE.len()]);
    lines(&mut |path, at, line| {
        for (number, (sign, places, instead)) in ONCE.iter().enumerate().filter(|(_, (sign, ..))| line.contains(sign)) {
            found[number] += 1;
            if !places.iter().any(|place| path == Path::new(place)) {
                again.push(format!("{}:{at} has `{sign}`: use {instead}", path.display()));
            }
        }
    });
    assert_eq!(again, Vec::<String>::new());
    for ((sign, places, _), found) in ONCE.iter().zip(found) {
        assert!(found > 0 || places.is_empty(), "nothing has `{sign}`: is it written otherwise now?");
    }
}

#[test]
fn what_every_room_stands_on_is_light() {
    let packages = super::packages();
    let base = packages.iter().find(|p| p["name"] == super::GROUND_FLOOR).expect("base is a package");
    let dependencies =
        base["dependencies"].as_array().expect("dependencies").iter().filter(|d| d["kind"].is_null() && d["optional"] == false);
    let heavy: Vec<&str> = dependencies.filter_map(|d| d["name"].as_str()).filter(|name| !MAY_STAND_ON.contains(name)).collect();
    assert_eq!(heavy, Vec::<&str>::new());
}
