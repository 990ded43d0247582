//! A file system for one test: mounted for one thread and its children, and gone with them.

use std::path::Path;
use std::process::Command;

/// Runs a test in the root directory of a new, empty file system of this many MiB; skips the test if mounting is impossible.
pub(crate) fn on(kind: &str, mib: u64, test: impl FnOnce(&Path) + Send) {
    if !rustix::process::geteuid().is_root() {
        return println!("SKIPPED: mounting a file system needs root");
    }
    let scratch = tempfile::tempdir().unwrap();
    let result = std::thread::scope(|scope| {
        let mounted = scope.spawn(|| {
            // SAFETY: takes numbers only; the thread, which ends here, has a mount namespace of its own afterwards.
            if unsafe { libc::unshare(libc::CLONE_FS | libc::CLONE_NEWNS) } != 0 {
                return Err(format!("no name space for mounts: {}", std::io::Error::last_os_error()));
            }
            let point = scratch.path().join("point");
            std::fs::create_dir(&point).unwrap();
            run(Command::new("mount").args(["--make-rprivate", "/"]))?;
            match kind {
                "tmpfs" => run(Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "none"]).arg(&point))?,
                _ => {
                    let image = scratch.path().join("image");
                    std::fs::File::create(&image).unwrap().set_len(mib << 20).unwrap();
                    run(Command::new(format!("mkfs.{kind}")).arg("-q").arg(&image))?;
                    run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&point))?;
                }
            }
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&point)));
            let _ = run(Command::new("umount").arg("-l").arg(&point));
            Ok(done)
        });
        mounted.join().unwrap()
    });
    match result {
        Err(why) => println!("SKIPPED: {why}"),
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Ok(Ok(())) => {}
    }
}

/// Runs a command; an error says why it failed.
fn run(command: &mut Command) -> Result<(), String> {
    let shown = format!("{command:?}");
    let done = command.output().map_err(|e| format!("{shown}: {e}"))?;
    if done.status.success() { Ok(()) } else { Err(format!("{shown}: {}", String::from_utf8_lossy(&done.stderr).trim())) }
}
