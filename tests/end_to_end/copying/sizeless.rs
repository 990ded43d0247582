//! Files without a valid size are read to their end: files of /proc and /sys, pipes, sockets, devices; and names of the maximum length.

use crate::bounded::{Bounded, LIMIT};
use crate::common::{Up, content, file, run, scratch, skipped, text, thalweg};
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

fn stored(store: &Up, path: &str) -> Vec<u8> {
    let out = thalweg(["cat", &store.path(path)]).output_in_time().unwrap();
    assert!(out.status.success(), "{path}");
    out.stdout
}

/// Returns kernel files, whose size is reported as 0 or 4096, with their contents.
fn kernel_files() -> Vec<(&'static str, Vec<u8>)> {
    let all = [
        "/proc/version",
        "/proc/filesystems",
        "/proc/kallsyms",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/kernel/uevent_seqnum",
    ];
    let steady = |path: &'static str| Some((path, std::fs::read(path).ok()?)).filter(|(_, bytes)| !bytes.is_empty());
    all.into_iter().filter_map(steady).collect()
}

#[test]
fn files_of_the_kernel_are_copied_to_their_end_however_they_are_copied() {
    let store = Up::start(2);
    let files = kernel_files();
    assert!(files.len() >= 2, "no /proc");
    let ways: [&[&str]; 6] =
        [&[], &["--requests", "3"], &["--depth", "2", "--streams", "2"], &["--request", "4Ki"], &["--sync"], &["--sparse=always"]];
    for (way, flags) in ways.iter().enumerate() {
        for (n, (path, bytes)) in files.iter().enumerate() {
            let name = format!("/{way}-{n}");
            run([&["cp", "--quiet"], *flags, &[path, &store.path(&name)]].concat()).done();
            assert!(stored(&store, &name) == *bytes, "{path} {flags:?}");
        }
    }
    // A tree that leads to them, and ordinary files.
    let here = scratch();
    let tree = here.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    files.iter().enumerate().for_each(|(n, (path, _))| std::os::unix::fs::symlink(path, tree.join(n.to_string())).unwrap());
    std::fs::write(tree.join("plain"), "text").unwrap();
    std::fs::write(tree.join("empty"), "").unwrap();
    run(["cp", "-r", "--follow", "--quiet", text(&tree), &store.path("/tree")]).done();
    files.iter().enumerate().for_each(|(n, (path, bytes))| assert!(stored(&store, &format!("/tree/{n}")) == *bytes, "{path}"));
    assert_eq!((stored(&store, "/tree/plain"), stored(&store, "/tree/empty")), (b"text".to_vec(), Vec::new()));
}

#[test]
fn pipes_sockets_and_devices_that_are_named_are_read_and_written_to_their_end() {
    let store = Up::start(2);
    let here = scratch();
    let bytes = content(3, 3_000_001);
    let source = file(here.path(), "source", &bytes);
    let (fifo, socket) = (here.path().join("fifo"), here.path().join("socket"));
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| std::fs::write(&fifo, &bytes).unwrap());
        run(["cp", "--quiet", "--sync", text(&fifo), &store.path("/fifo")]).done();
    });
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| listener.accept().unwrap().0.write_all(&bytes).unwrap());
        run(["cp", "--quiet", text(&socket), &store.path("/socket")]).done();
    });
    let mut child = thalweg(["cp", "--quiet", "/dev/stdin", &store.path("/stdin")]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    assert!(crate::bounded::BoundedChild::wait_in_time(&mut child, LIMIT).unwrap().success());
    run(["cp", "--quiet", "/dev/null", &store.path("/null")]).done();
    for name in ["/fifo", "/socket", "/stdin"] {
        assert!(stored(&store, name) == bytes, "{name}");
    }
    assert!(stored(&store, "/null").is_empty());
    // Copying out: a pipe is written to and stays a pipe, and so does a device.
    std::thread::scope(|scope| {
        let read = scope.spawn(|| std::fs::read(&fifo).unwrap());
        run(["cp", "--quiet", &store.path("/fifo"), text(&fifo)]).done();
        assert!(read.join().unwrap() == bytes);
    });
    run(["cp", "--quiet", &store.path("/fifo"), "/dev/null"]).done();
    let out = thalweg(["cp", "--quiet", &store.path("/fifo"), "/dev/stdout"]).output_in_time().unwrap();
    assert!(out.status.success() && out.stdout == bytes);
    // A shell's own pipes, in both directions.
    let Ok(_) = Command::new("bash").args(["-c", "true"]).output_in_time() else { return skipped("there is no bash") };
    let script = format!(
        "{0} cp --quiet <(cat {1}) {2} && {0} cp --quiet {2} >(cat > {3}; touch {3}.done)",
        crate::common::THALWEG,
        text(&source),
        store.path("/substituted"),
        text(&here.path().join("out"))
    );
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).envs(thalweg(["--version"]).get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert!(bash.output_in_time().unwrap().status.success());
    crate::common::wait_until("the pipe is read", || here.path().join("out.done").exists());
    assert!(std::fs::read(here.path().join("out")).unwrap() == bytes && stored(&store, "/substituted") == bytes);
}

#[test]
fn a_pipe_in_a_tree_is_made_again_and_not_read() {
    let store = Up::start(1);
    let here = scratch();
    let tree = here.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    let fifo = tree.join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0).unwrap();
    run(["cp", "-r", "--quiet", text(&tree), &store.path("/tree")]).done();
    let listed = run(["ls", "-l", &store.path("/tree")]).done().out;
    assert!(listed.lines().any(|line| line.trim_start().starts_with('p') && line.contains("fifo")), "{listed}");
}

fn names_of(bytes: usize) -> Vec<String> {
    let whole = |character: &str| character.repeat(bytes / character.len()) + &"x".repeat(bytes % character.len());
    ["n", "ü", "語", "🗻"].into_iter().map(whole).collect()
}

#[test]
fn names_as_long_as_names_can_be_go_in_and_come_out_alone_and_in_trees() {
    let store = Up::start(2);
    let here = scratch();
    let (tree, small, large) = (here.path().join("tree"), content(1, 1000), content(2, 1_500_000));
    std::fs::create_dir(&tree).unwrap();
    for length in [247, 248, 255] {
        for (n, name) in names_of(length).iter().enumerate() {
            let bytes = if n % 2 == 0 { &small } else { &large };
            let source = file(&tree, name, bytes);
            let target = store.path(&format!("/{name}"));
            run(["cp", "--quiet", text(&source), &target]).done();
            let out = here.path().join(name);
            run(["cp", "--quiet", &target, text(&out)]).done();
            assert!(std::fs::read(&out).unwrap() == *bytes, "{name}");
        }
    }
    run(["cp", "-r", "--quiet", text(&tree), &store.path("/tree")]).done();
    let out = here.path().join("out");
    run(["cp", "-r", "--quiet", &store.path("/tree"), text(&out)]).done();
    assert!(listed(&out) == listed(&tree));
    assert!(listed(&out).iter().all(|(name, _)| !name.ends_with(".partial")));
    assert!(!run(["ls", "-R", &store.path("/")]).done().out.contains(".partial"));
}

fn listed(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let mut all: Vec<_> = entries.map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())).collect();
    all.sort();
    all
}
