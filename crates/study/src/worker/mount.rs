//! A mount of the store on a worker's node: a `thalweg mount` in the foreground, so that its CPU time can be read.

use crate::{Error, Result};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use thalweg_base::proc::mounts;

/// Timeout for a mount to come up.
const MOUNT_WITHIN: Duration = Duration::from_secs(30);

/// A mount, unmounted on drop.
pub(super) struct Mount {
    point: PathBuf,
    child: Child,
    is_up: bool,
}

impl Mount {
    /// Mounts the store `thal://HOST:PORT` at `point`; `node` is the node's label.
    pub(super) fn new(store: &str, point: PathBuf, node: &str, credential: Option<&Path>) -> Result<Mount> {
        std::fs::create_dir_all(&point).map_err(Error::file(&point, "making the mount point"))?;
        // This path works even if the program's file was replaced meanwhile.
        let program = Path::new("/proc/self/exe");
        let mut command = Command::new(program);
        command.arg("mount").arg(store).arg(&point).args(["--foreground", "--node", node]);
        if let Some(file) = credential {
            command.arg("--credential").arg(file);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().map_err(Error::file(program, "starting it"))?;
        let mut mount = Mount { point, child, is_up: true };
        let begun = Instant::now();
        while !is_mounted(&mount.point) {
            let ended = mount.child.try_wait().ok().flatten();
            if ended.is_some() || begun.elapsed() > MOUNT_WITHIN {
                let _ = mount.child.kill();
                let mut said = String::new();
                let _ = mount.child.stderr.take().map(|mut pipe| pipe.read_to_string(&mut said));
                return Err(Error::Choice(format!("thalweg mount {}: did not come up: {}", mount.point.display(), said.trim())));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(mount)
    }

    /// Returns the PID of the mount's process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Unmounts it.
    pub(super) fn down(&mut self) -> Result<()> {
        self.is_up = false;
        let said = Command::new("/proc/self/exe").arg("umount").arg(&self.point).output();
        if !said.as_ref().is_ok_and(|said| said.status.success()) && is_mounted(&self.point) {
            // Never left behind: a hung mount blocks every process that accesses it.
            let _ = Command::new("umount").arg("--lazy").arg(&self.point).output();
            let _ = self.child.kill();
        }
        self.child.wait().map_err(Error::file(&self.point, "waiting for its process"))?;
        // Removes only an empty directory.
        let _ = std::fs::remove_dir(&self.point);
        match said {
            Ok(said) if said.status.success() => Ok(()),
            Ok(said) => Err(Error::Choice(format!("thalweg umount: {}", String::from_utf8_lossy(&said.stderr).trim()))),
            Err(error) => Err(Error::file(&self.point, "unmounting it")(error)),
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.is_up {
            let _ = self.down();
        }
    }
}

/// Whether something is mounted there, without a request to a file system that may hang.
fn is_mounted(point: &Path) -> bool {
    let point = std::path::absolute(point).unwrap_or_else(|_| point.to_owned());
    mounts::here().unwrap_or_default().iter().any(|mount| mount.point == point)
}
