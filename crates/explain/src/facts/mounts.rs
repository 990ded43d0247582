//! The mounted stores that the recorded program worked in, from the recording's attributes `mount.POINT`: their servers and targets, so
//! that a change of layout can be proposed with the words that make it.

use thalweg_trace::{Meta, MountDescription};

/// A mounted store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The mount point.
    pub point: String,
    /// The store's description of itself.
    pub store: MountDescription,
}

/// Reads them from a recording; unreadable ones are left out.
pub(crate) fn mounts(meta: &Meta) -> Vec<Mount> {
    let described = meta.attributes.iter().filter_map(|(name, text)| Some((name.strip_prefix("mount.")?, text)));
    let read =
        described.filter_map(|(point, text)| Some(Mount { point: point.to_owned(), store: MountDescription::read(text.as_bytes()).ok()? }));
    read.collect()
}

impl Mount {
    /// Whether the mounting machine runs some of its servers, but not all: then the placement of bytes matters.
    pub(crate) fn has_local_server(&self) -> bool {
        let servers = &self.store.servers;
        let local = servers.iter().filter(|server| !server.node.is_empty() && server.node == self.store.node).count();
        local > 0 && local < servers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_read_from_what_it_said_of_itself_and_nonsense_is_left_out() {
        let mut meta = Meta {
            format: thalweg_trace::FORMAT_VERSION,
            command: Vec::new(),
            recorder: "hand".into(),
            start: thalweg_trace::Time::from_monotonic_ns(0),
            end: None,
            exit_code: None,
            dropped_events: 0,
            attributes: Vec::new(),
        };
        let said = r#"{"store": "1f", "metadata": "h:1", "node": "a", "pid": 7, "strict": true, "targets": [],
            "servers": [{"name": "io0", "node": "b", "address": "h:2"}, {"name": "io1", "node": "a", "address": "h:3"}]}"#;
        for (name, value) in [("mount./mnt/x", said), ("mount./mnt/y", "{"), ("mountain", "{}")] {
            meta.attributes.push((name.to_owned(), value.to_owned()));
        }
        let found = mounts(&meta);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].point.as_str(), found[0].store.strict, found[0].store.servers.len()), ("/mnt/x", true, 2));
        assert!(found[0].has_local_server());
    }
}
