//! Reports mounts on this machine that honour set-user bits or device nodes of a store. Only root can ask for that.

use thalweg_mount::{Mounted, mounts};
use thalweg_wire::address::without_pin;

/// Returns a line for each such mount here; only mounts of the store whose metadata service is at `service`, if given.
pub(crate) fn lines(service: Option<&str>) -> Vec<String> {
    let all = mounts().unwrap_or_default();
    all.iter().filter(|mount| service.is_none_or(|service| is_of(mount, service))).filter_map(line).collect()
}

fn is_of(mount: &Mounted, service: &str) -> bool {
    let authority = mount.source.strip_prefix("thal://").and_then(|rest| rest.split('/').next());
    authority.is_some_and(|authority| without_pin(authority) == without_pin(service))
}

fn line(mount: &Mounted) -> Option<String> {
    let what = match (mount.honours.suid, mount.honours.dev) {
        (false, false) => return None,
        (true, false) => "set-user and set-group bits and capabilities",
        (false, true) => "device nodes",
        (true, true) => "set-user and set-group bits, capabilities and device nodes",
    };
    Some(format!("{} honours {what} of the store: mounted with --allow-suid or --allow-dev", mount.at.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use thalweg_mount::Honours;

    #[test]
    fn a_mount_is_reported_when_it_honours_something_of_that_store() {
        let mounted = |source: &str, suid, dev| Mounted {
            at: PathBuf::from("/m"),
            source: source.into(),
            device: (0, 52),
            honours: Honours { suid, dev },
        };
        assert_eq!(line(&mounted("thal://h:1/", false, false)), None);
        let both = line(&mounted("thal://h:1/", true, true)).unwrap();
        assert!(both.starts_with("/m honours set-user") && both.contains("device nodes"), "{both}");
        assert!(is_of(&mounted("thal://h:1#dlri/dir", true, false), "h:1") && is_of(&mounted("thal://h:1/", true, false), "h:1#plain"));
        assert!(!is_of(&mounted("thal://h:11/", true, false), "h:1"));
    }
}
