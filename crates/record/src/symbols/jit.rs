//! Run-time generated code, from the map that a program leaves for profilers: `START SIZE NAME`, a function per line.

use super::Named;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use thalweg_base::proc::status;

/// Maximum bytes read of a map.
const MOST_BYTES: u64 = 64 << 20;

/// A process's map file: in its own root, under its process id in its own namespace.
#[derive(Debug, Default)]
pub(crate) struct JitMap {
    paths: Vec<PathBuf>,
    /// Opened while the process existed; later writes are seen too.
    file: Option<File>,
}

impl JitMap {
    /// Opens the map of a process, which may have ended.
    pub(crate) fn of(pid: u32) -> JitMap {
        let status = status::of(pid).unwrap_or_default();
        let own = status
            .field("NSpid")
            .unwrap_or_default()
            .split_ascii_whitespace()
            .last()
            .and_then(|number| number.parse::<u32>().ok())
            .unwrap_or(pid);
        let paths = vec![format!("/proc/{pid}/root/tmp/perf-{own}.map").into(), format!("/tmp/perf-{pid}.map").into()];
        let mut map = JitMap { paths, file: None };
        map.open();
        map
    }

    fn open(&mut self) {
        if self.file.is_none() {
            self.file = self.paths.iter().find_map(|path| super::open_file(path));
        }
    }

    /// Returns the names of these addresses, as far as the map has them.
    pub(crate) fn names(&mut self, addresses: &[u64]) -> Vec<(u64, Named)> {
        use std::io::Seek;
        self.open();
        let Some(file) = &mut self.file else { return Vec::new() };
        let mut text = Vec::new();
        if file.rewind().is_err() || file.take(MOST_BYTES).read_to_end(&mut text).is_err() {
            return Vec::new();
        }
        let map = parse(&String::from_utf8_lossy(&text));
        let find = |address: &u64| {
            let (start, (size, name)) = map.range(..=*address).next_back()?;
            let offset = address - start;
            (offset < *size).then(|| (*address, Named { symbol: name.clone(), offset }))
        };
        addresses.iter().filter_map(find).collect()
    }
}

/// Later lines win: code is moved, and its addresses are reused.
fn parse(text: &str) -> BTreeMap<u64, (u64, String)> {
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let line = |line: &str| {
        let mut fields = line.splitn(3, ' ');
        Some((number(fields.next()?)?, (number(fields.next()?)?, fields.next()?.trim().to_owned())))
    };
    text.lines().filter_map(line).filter(|(_, (_, name))| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_place_counts_and_what_is_no_line_is_left_out() {
        let map = parse("1000 20 old name\nnonsense\n1000 30 render [tier 2]\n0x2000 10 other\n3000 10 \n");
        assert_eq!(map.get(&0x1000), Some(&(0x30, "render [tier 2]".to_owned())));
        assert_eq!((map.get(&0x2000).map(|entry| entry.0), map.len()), (Some(0x10), 2));
    }

    #[test]
    fn addresses_between_functions_have_no_name() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("perf-1.map");
        std::fs::write(&path, "1000 20 f\n1100 8 g\n").expect("written");
        let mut map = JitMap { paths: vec![path], file: None };
        assert_eq!(
            map.names(&[0x101f, 0x1020, 0x1104]),
            [(0x101f, Named { symbol: "f".into(), offset: 0x1f }), (0x1104, Named { symbol: "g".into(), offset: 4 })]
        );
    }
}
