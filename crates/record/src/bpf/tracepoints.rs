//! Which tracepoints with types the running kernel has, and which of the functions that are asked for.
//!
//! The kernel names tracepoints in its own types (BTF), as `btf_trace_NAME`, and functions by their own names. libbpf reads these megabytes anyway when it loads the programs;
//! to parse them once more for the names only would cost as much again, so only their strings are looked through.

use std::collections::HashSet;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::FileExt;

/// Where the kernel keeps its types.
pub(crate) const BTF: &str = "/sys/kernel/btf/vmlinux";

/// The header's length, and in it the places of the strings and of their length, counted from its end.
const HEADER: usize = 24;
const MAGIC: u16 = 0xeb9f;
const PREFIX: &[u8] = b"btf_trace_";

/// More than any kernel's strings take.
const MOST_BYTES: usize = 64 << 20;

/// What counts files and names: program, and the kernel's function that it is attached to (fentry).
pub(crate) const COUNTED: &[(&str, &str)] = &[
    ("on_open", "security_file_open"),
    ("on_getattr", "security_inode_getattr"),
    ("on_unlink", "security_inode_unlink"),
    ("on_rename", "security_inode_rename"),
    ("on_listed", "filldir64"),
];

/// What counts where no program may be attached to functions: program, tracepoint, and which program on a function counts the same or more.
pub(crate) const STAND_INS: &[(&str, &str, &str)] = &[
    ("on_ext4_create", "ext4_allocate_inode", "on_open"),
    ("on_ext4_unlink", "ext4_unlink_enter", "on_unlink"),
    ("on_read_pages", "mm_filemap_get_pages", "on_open"),
];

/// What is not known where nothing counts.
pub(crate) const COUNTS: &str = "how many files were opened, created, removed or renamed, and how many names listed";

/// The same where tracepoints count.
const COUNTS_BY_TRACEPOINTS: &str = "how many files were opened and not read, renamed, or asked for attributes, how many names listed, and what was created or removed elsewhere than on ext4";

/// The same where they do not count what is read.
const COUNTS_WITHOUT_READS: &str = "how many files were opened, renamed, or asked for attributes, how many names listed, and what was created or removed elsewhere than on ext4";

/// The names of all of them, and of the functions of [`COUNTED`] that are there.
#[derive(Clone, Debug)]
pub(crate) struct Tracepoints {
    names: HashSet<Vec<u8>>,
    functions: HashSet<Vec<u8>>,
}

impl Tracepoints {
    /// Those of the running kernel.
    pub(crate) fn of_kernel() -> std::io::Result<Tracepoints> {
        let file = std::fs::File::open(BTF)?;
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0)?;
        let (at, length) = strings(&header).ok_or_else(|| Error::new(ErrorKind::InvalidData, "these are no types of a kernel"))?;
        let mut text = vec![0; length];
        file.read_exact_at(&mut text, at)?;
        Ok(Tracepoints::named(&text))
    }

    fn named(strings: &[u8]) -> Tracepoints {
        let mut found = Tracepoints { names: HashSet::new(), functions: HashSet::new() };
        for name in strings.split(|byte| *byte == 0) {
            if let Some(tracepoint) = name.strip_prefix(PREFIX) {
                found.names.insert(tracepoint.to_vec());
            } else if COUNTED.iter().any(|(_, function)| function.as_bytes() == name) {
                found.functions.insert(name.to_vec());
            }
        }
        found
    }

    /// Whether this one is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains(name.as_bytes())
    }

    /// Whether this program counts files here; `functions`: programs may be attached to functions. `None`: it counts none anywhere.
    pub(crate) fn counts(&self, program: &str, functions: bool) -> Option<bool> {
        let on_function = |program| COUNTED.iter().find(|(name, _)| *name == program).map(|(_, f)| functions && self.has_function(f));
        let stand_in = STAND_INS.iter().find(|(name, _, _)| *name == program);
        on_function(program).or(stand_in.map(|(_, tracepoint, instead_of)| self.has(tracepoint) && on_function(instead_of) == Some(false)))
    }

    /// What of the files a command deals with cannot be counted here; `None`: all can.
    pub(crate) fn not_counted(&self, functions: bool) -> Option<&'static str> {
        let counts = |program: &str| self.counts(program, functions) == Some(true);
        if COUNTED.iter().all(|(program, _)| counts(program)) {
            return None;
        }
        Some(match (STAND_INS.iter().any(|(program, _, _)| counts(program)), counts("on_read_pages")) {
            (false, _) => COUNTS,
            (true, true) => COUNTS_BY_TRACEPOINTS,
            (true, false) => COUNTS_WITHOUT_READS,
        })
    }

    /// Whether the kernel has a function of this name; something else may be called so, too.
    pub(crate) fn has_function(&self, name: &str) -> bool {
        self.functions.contains(name.as_bytes())
    }
}

/// Where the strings are, and how long.
fn strings(header: &[u8; HEADER]) -> Option<(u64, usize)> {
    let word = |at: usize| header.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
    if u16::from_ne_bytes([header[0], header[1]]) != MAGIC {
        return None;
    }
    let length = usize::try_from(word(20)?).ok().filter(|length| *length <= MOST_BYTES)?;
    Some((u64::from(word(4)?) + u64::from(word(16)?), length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracepoints_are_found_among_other_names() {
        let found = Tracepoints::named(b"\0task_struct\0btf_trace_sched_switch\0__bpf_trace_sched_waking\0btf_trace_tcp_probe\0");
        assert!(found.has("sched_switch") && found.has("tcp_probe"));
        assert!(!found.has("sched_waking") && !found.has("task_struct") && !found.has(""));
        assert!(!found.has_function("filldir64") && Tracepoints::named(b"\0filldir64\0").has_function("filldir64"));
    }

    #[test]
    fn one_count_has_one_source_and_what_has_none_is_said() {
        let both = Tracepoints::named(
            b"\0btf_trace_ext4_allocate_inode\0btf_trace_mm_filemap_get_pages\0security_file_open\0security_inode_unlink\0",
        );
        for functions in [true, false] {
            assert_eq!(both.counts("on_open", functions), Some(functions));
            assert_eq!(both.counts("on_ext4_create", functions), Some(!functions), "not beside on_open");
            assert_eq!(both.counts("on_read_pages", functions), Some(!functions), "not beside on_open");
            assert_eq!(both.counts("on_ext4_unlink", functions), Some(false), "the kernel has no such tracepoint");
        }
        assert_eq!(both.counts("on_switch", true), None, "counts no files");
        assert_eq!(both.not_counted(false), Some(COUNTS_BY_TRACEPOINTS));
        let none = Tracepoints::named(b"\0security_file_open\0btf_trace_sched_switch\0");
        assert_eq!(none.not_counted(false), Some(COUNTS));
        let names: Vec<&str> = COUNTED.iter().map(|(_, function)| *function).collect();
        assert_eq!(Tracepoints::named(names.join("\0").as_bytes()).not_counted(true), None);
    }

    #[test]
    fn a_header_says_where_the_strings_are_and_anything_else_is_refused() {
        let mut header = [0; HEADER];
        header[..2].copy_from_slice(&MAGIC.to_ne_bytes());
        for (at, value) in [(4, 24_u32), (16, 1_000), (20, 77)] {
            header[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        assert_eq!(strings(&header), Some((1_024, 77)));
        header[20..24].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(strings(&header), None, "bounded");
        assert_eq!(strings(&[0; HEADER]), None);
    }
}
