//! What a processor quota took from a process: its control group's own statistics, in both versions of cgroups.

use std::fs;
use std::path::{Path, PathBuf};

/// The control group of a process, and those above it that have a quota.
#[derive(Debug, Default)]
pub struct Throttle {
    groups: Vec<Group>,
    last: u64,
}

#[derive(Debug)]
struct Group {
    stat: PathBuf,
    quota: f64,
    before_ns: u64,
}

/// Nanoseconds throttled, in the text of cpu.stat: `throttled_usec` in version 2, `throttled_time` (nanoseconds) in 1.
fn throttled_ns(stat: &str) -> u64 {
    for line in stat.lines() {
        let number = |text: &str| text.trim().parse::<u64>().unwrap_or(0);
        if let Some(rest) = line.strip_prefix("throttled_usec ") {
            return number(rest) * 1_000;
        }
        if let Some(rest) = line.strip_prefix("throttled_time ") {
            return number(rest);
        }
    }
    0
}

/// Processors that a group may use, if it is limited.
fn quota_of(group: &Path) -> Option<f64> {
    let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<f64>().ok();
    if let Ok(text) = fs::read_to_string(group.join("cpu.max")) {
        let (quota, period) = text.trim().split_once(' ')?;
        return Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?);
    }
    let (quota, period) = (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

/// Where the hierarchy with processor quotas is mounted, with the group of a process in it.
fn group_of(pid: u32) -> Vec<(PathBuf, String)> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let unified = controllers.is_empty();
        if !unified && !controllers.split(',').any(|c| c == "cpu") {
            continue;
        }
        for mount in mounts.lines() {
            let Some((before, after)) = mount.split_once(" - ") else { continue };
            let mut about = after.split(' ');
            let kind = about.next().unwrap_or("");
            let options = about.nth(1).unwrap_or("");
            let fits = if unified { kind == "cgroup2" } else { kind == "cgroup" && options.split(',').any(|o| o == "cpu") };
            if fits && let Some(point) = before.split(' ').nth(4) {
                found.push((PathBuf::from(point), path.to_owned()));
            }
        }
    }
    found
}

impl Throttle {
    /// The groups that hold this process and have a quota.
    pub fn of(pid: u32) -> Throttle {
        let mut groups = Vec::new();
        for (mount, path) in group_of(pid) {
            let mut group = mount.join(path.trim_start_matches('/'));
            while group.starts_with(&mount) {
                if let Some(quota) = quota_of(&group) {
                    let stat = group.join("cpu.stat");
                    let before_ns = throttled_ns(&fs::read_to_string(&stat).unwrap_or_default());
                    groups.push(Group { stat, quota, before_ns });
                }
                if !group.pop() {
                    break;
                }
            }
        }
        Throttle { groups, last: u64::MAX }
    }

    /// The least quota, in processors.
    pub fn quota(&self) -> Option<f64> {
        self.groups.iter().map(|g| g.quota).reduce(f64::min)
    }

    /// Whether it is about the same groups.
    pub fn is_same(&self, other: &Throttle) -> bool {
        self.groups.iter().map(|g| &g.stat).eq(other.groups.iter().map(|g| &g.stat))
    }

    /// Nanoseconds throttled since the beginning, if that has changed; 0 the first time.
    pub fn changed(&mut self) -> Option<u64> {
        let now =
            self.groups.iter().map(|g| throttled_ns(&fs::read_to_string(&g.stat).unwrap_or_default()).saturating_sub(g.before_ns)).max()?;
        (now != std::mem::replace(&mut self.last, now)).then_some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_say_how_long() {
        assert_eq!(throttled_ns("nr_periods 5\nnr_throttled 3\nthrottled_time 250000000\n"), 250_000_000);
        assert_eq!(throttled_ns("usage_usec 1\nthrottled_usec 250000\n"), 250_000_000);
        assert_eq!(throttled_ns(""), 0);
    }
}
