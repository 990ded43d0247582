//! Damage at rest, as users meet it: in `cp`, `cat`, a mount and `df`.

use crate::common::{Mounted, Servers, Up, can_mount, content, file, run, scratch, text};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Returns the datafiles below a directory, the largest first.
pub(super) fn datafiles(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in std::fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path()) {
        match path.is_dir() {
            true => found.extend(datafiles(&path)),
            false if text(&path).contains("/datafiles/") && !text(&path).ends_with(".crc") => found.push(path),
            false => {}
        }
    }
    found.sort_by_key(|path| std::cmp::Reverse(path.metadata().map_or(0, |about| about.len())));
    found
}

/// Flips a bit.
pub(super) fn flip(path: &Path, at: u64) {
    let datafile = File::options().read(true).write(true).open(path).expect("a datafile");
    let mut byte = [0];
    datafile.read_exact_at(&mut byte, at).expect("a byte");
    datafile.write_all_at(&[byte[0] ^ 0x10], at).expect("written");
}

#[test]
fn damage_is_an_error_that_names_it_and_the_rest_can_be_copied() {
    let here = scratch();
    let bytes = content(9, 3_000_001);
    let source = file(here.path(), "source", &bytes);
    let out = here.path().join("out");
    for (servers, layout) in [(1, "basic_dist"), (3, "simple_stripe,strip_size=64Ki")] {
        let store = Up::start(servers);
        let path = store.path("/f");
        run(["cp", "--layout", layout, text(&source), &path]).done();
        run(["cp", &path, text(&out)]).done();
        assert!(std::fs::read(&out).unwrap() == bytes);
        let datafile = datafiles(store.directory.path()).remove(0);
        flip(&datafile, 41_000);
        std::fs::remove_file(&out).unwrap();
        let says = ["/f", "server io", "target ", text(&datafile), "bytes 40960 to 45056", "thalweg cp --skip-damaged"];
        run(["cp", &path, text(&out)]).failed(1, &says);
        assert!(!out.exists(), "nothing is left of it");
        run(["cat", &path]).failed(1, &says);
        let skipped = run(["cp", "--json", "--skip-damaged", &path, text(&out)]).failed(1, &["4 KiB are damaged", "left out: bytes "]);
        let [from, to] = [0, 1].map(|end| skipped.json()["damaged"][0][end].as_u64().expect("a range") as usize);
        let copied = std::fs::read(&out).unwrap();
        assert_eq!((to - from, copied.len()), (4096, bytes.len()));
        assert!(copied[..from] == bytes[..from] && copied[from..to] == [0; 4096] && copied[to..] == bytes[to..]);
        let piped = run(["cp", "--skip-damaged", &path, "-"]).failed(1, &["left out"]);
        assert_eq!(piped.code, Some(1));
        let space = run(["df", "--store", &store.address]).done();
        assert!(space.out.contains("damaged data: target "), "{}", space.out);
        if can_mount() {
            let mounted = Mounted::new(&store, &here.path().join("mnt"), &[]);
            let error = std::fs::read(mounted.at("f")).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
            mounted.umount().done();
        }
        // Writing it again repairs it.
        run(["cp", "--force", text(&source), &path]).done();
        run(["cp", "--force", &path, text(&out)]).done();
        assert!(std::fs::read(&out).unwrap() == bytes);
        std::fs::remove_file(&out).unwrap();
    }
}

#[test]
fn a_tree_with_damage_is_copied_without_it() {
    let here = scratch();
    let store = Up::start(2);
    let tree = here.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    let sizes = [("small", 20_000), ("large", 3_000_001), ("whole", 5_000)];
    for (name, size) in sizes {
        file(&tree, name, &content(21, size));
    }
    run(["cp", "-r", "--layout", "basic_dist", text(&tree), &store.path("/tree")]).done();
    let found = datafiles(store.directory.path());
    assert_eq!(found.len(), 3);
    // The largest one, and the one of 20,000 bytes.
    flip(&found[0], 2_000_000);
    flip(&found[1], 9_000);
    let out = here.path().join("out");
    run(["cp", "-r", &store.path("/tree"), text(&out)]).failed(1, &["/tree/small", "/tree/large", "2 entries were not copied"]);
    std::fs::remove_dir_all(&out).unwrap();
    let says = ["/tree/small: ", "bytes 8192 to 12288", "/tree/large: ", "bytes 1998848 to 2002944", "of 2 files were left out"];
    run(["cp", "-r", "--skip-damaged", &store.path("/tree"), text(&out)]).failed(1, &says);
    for (name, size) in sizes {
        let (mut expected, copied) = (content(21, size), std::fs::read(out.join(name)).unwrap());
        match name {
            "small" => expected[8192..12_288].fill(0),
            "large" => expected[1_998_848..2_002_944].fill(0),
            _ => {}
        }
        assert!(copied == expected, "{name}");
    }
    run(["cp", "-r", "--skip-damaged", text(&tree), &store.path("/other")]).failed(2, &["--skip-damaged"]);
}

#[test]
fn a_store_of_an_earlier_release_says_that_it_has_no_checksums() {
    let mut servers = Servers::describe(1, |directory, _| vec![directory.join("t0")]);
    servers.serve("metadata");
    servers.serve("io0");
    let identity = servers.directory().join("t0/thalweg-target.toml");
    let store = servers.store.clone();
    let space = |says: bool| {
        let out = run(["df", "--store", text(&store)]).done().out;
        assert_eq!(out.contains("no checksums at rest: target 0"), says, "{out}");
    };
    space(false);
    servers.kill("io0");
    let was = std::fs::read_to_string(&identity).unwrap();
    std::fs::write(&identity, was.replace("format = 2", "format = 1")).unwrap();
    servers.serve("io0");
    space(true);
}
