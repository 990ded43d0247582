//! Control groups of a process, and their directories. Version 2 has one hierarchy for all controllers, version 1 has several.

use super::mounts::Mount;
use std::path::{Path, PathBuf};

/// Returns the groups of a process as the kernel lists them (`/proc/PID/cgroup`); `None` if it has ended.
pub fn of(pid: u32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()
}

/// The directory of a group in a mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupPath {
    /// The mount point of the hierarchy.
    pub mount: PathBuf,
    /// The group's directory.
    pub directory: PathBuf,
}

impl CgroupPath {
    /// Iterates over the directories from the group up to the mount point.
    pub fn on_the_way_up(&self) -> impl Iterator<Item = &Path> {
        self.directory.ancestors().take_while(|directory| directory.starts_with(&self.mount))
    }

    /// Returns the path of one of these directories within the hierarchy.
    pub fn name(&self, directory: &Path) -> String {
        format!("/{}", directory.strip_prefix(&self.mount).unwrap_or(directory).display())
    }
}

/// Locates those groups of a list that have one of these controllers, given the mounts.
pub fn places(groups: &str, mounts: &[Mount], controllers: &[&str]) -> Vec<CgroupPath> {
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(names), Some(path)) = (parts.next(), parts.next()) else { continue };
        let is_wanted = names.split(',').any(|name| controllers.contains(&name));
        for mount in mounts {
            let fits = match names {
                "" => mount.kind == "cgroup2",
                names => {
                    let has = |name: &str| mount.options.split(',').any(|option| option == name);
                    mount.kind == "cgroup" && is_wanted && names.split(',').all(has)
                }
            };
            if fits {
                found.push(CgroupPath { mount: mount.point.clone(), directory: mount.point.join(path.trim_start_matches('/')) });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::mounts;
    use super::*;

    #[test]
    fn a_group_is_looked_for_where_its_own_hierarchy_is_mounted() {
        let mounts = mounts::parse(
            b"30 1 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
              31 1 0:27 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n\
              32 1 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        );
        let found = |controllers: &[&str]| places("4:blkio:/disks\n3:cpu,cpuacct:/job\n0::/user\n", &mounts, controllers);
        let at = |mount: &str, group: &str| CgroupPath { mount: PathBuf::from(mount), directory: PathBuf::from(group) };
        let unified = at("/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/user");
        let cpu = at("/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/job");
        assert_eq!(found(&["cpu"]), [cpu, unified.clone()]);
        assert_eq!(found(&["memory", "blkio"]), [at("/sys/fs/cgroup/blkio", "/sys/fs/cgroup/blkio/disks"), unified.clone()]);
        assert_eq!(found(&["pids"]), [unified]);
    }

    #[test]
    fn the_way_up_ends_where_the_hierarchy_is_mounted() {
        let place = CgroupPath { mount: PathBuf::from("/cg"), directory: PathBuf::from("/cg/site/job") };
        let names: Vec<String> = place.on_the_way_up().map(|directory| place.name(directory)).collect();
        assert_eq!(names, ["/site/job", "/site", "/"]);
    }
}
