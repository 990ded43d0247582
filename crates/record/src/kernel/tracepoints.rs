//! Which tracepoints with types the running kernel has, and which of the functions that are asked for.
//!
//! The kernel names tracepoints in its own types (BTF), as `btf_trace_NAME`, and functions by their own names.

use super::types::{Kept, Types, kind};
use std::collections::HashMap;
use std::sync::Arc;

const PREFIX: &str = "btf_trace_";

/// The functions that stand for the walks that programs can do.
const WALKS: [&str; 2] = ["bpf_iter_task", "bpf_iter_task_file"];

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

/// All of them, and the functions that are asked for, as far as they are there: each with the number of its type.
#[derive(Clone, Debug)]
pub(crate) struct Tracepoints {
    names: HashMap<Vec<u8>, u32>,
    functions: HashMap<&'static str, u32>,
    types: Option<Arc<Types<Kept>>>,
}

impl Tracepoints {
    /// Those of the running kernel.
    pub(crate) fn of_kernel() -> std::io::Result<Tracepoints> {
        let types = Arc::new(Types::of_kernel()?);
        let mut found = Tracepoints { names: HashMap::new(), functions: HashMap::new(), types: Some(Arc::clone(&types)) };
        for (number, of) in types.all() {
            match of.kind {
                kind::TYPEDEF => {
                    if let Some(tracepoint) = types.name(of).strip_prefix(PREFIX.as_bytes()) {
                        found.names.insert(tracepoint.to_vec(), number);
                    }
                }
                kind::FUNCTION => {
                    let asked = COUNTED.iter().map(|(_, function)| *function).chain(WALKS).find(|name| types.is_named(of, name));
                    found.functions.extend(asked.map(|name| (name, number)));
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// The kernel's types, of which they are some.
    pub(crate) fn types(&self) -> Option<&Types<Kept>> {
        self.types.as_deref()
    }

    /// What a program of this section is attached to, by the number of its type.
    pub(crate) fn target(&self, section: &str) -> Option<u32> {
        match section.split_once('/')? {
            ("tp_btf", tracepoint) => self.names.get(tracepoint.as_bytes()).copied(),
            ("fentry", function) => self.functions.get(function).copied(),
            ("iter", walk) => self.functions.get(format!("bpf_iter_{walk}").as_str()).copied(),
            _ => None,
        }
    }

    /// Whether this one is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains_key(name.as_bytes())
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

    /// Whether the kernel has this function.
    pub(crate) fn has_function(&self, name: &str) -> bool {
        self.functions.contains_key(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(tracepoints: &[&str], functions: &[&'static str]) -> Tracepoints {
        Tracepoints {
            names: tracepoints.iter().map(|name| (name.as_bytes().to_vec(), 1)).collect(),
            functions: functions.iter().map(|name| (*name, 2)).collect(),
            types: None,
        }
    }

    #[test]
    fn a_program_s_section_says_what_it_is_attached_to() {
        let found = named(&["sched_switch"], &["filldir64", "bpf_iter_task"]);
        assert!(found.has("sched_switch") && !found.has("sched_waking") && !found.has("filldir64"));
        assert_eq!(
            ["tp_btf/sched_switch", "fentry/filldir64", "iter/task"].map(|section| found.target(section)),
            [Some(1), Some(2), Some(2)]
        );
        assert_eq!(["tp_btf/filldir64", "fentry/vfs_read", "perf_event", "syscall"].map(|section| found.target(section)), [None; 4]);
    }

    #[test]
    fn the_running_kernel_has_what_it_needs() {
        let Ok(found) = Tracepoints::of_kernel() else { return println!("SKIPPED: this kernel has no types") };
        assert!(crate::bpf::NEEDED.iter().all(|name| found.has(name)));
        assert!(found.target("iter/task").is_some());
    }

    #[test]
    fn one_count_has_one_source_and_what_has_none_is_said() {
        let both = named(&["ext4_allocate_inode", "mm_filemap_get_pages"], &["security_file_open", "security_inode_unlink"]);
        for functions in [true, false] {
            assert_eq!(both.counts("on_open", functions), Some(functions));
            assert_eq!(both.counts("on_ext4_create", functions), Some(!functions), "not beside on_open");
            assert_eq!(both.counts("on_read_pages", functions), Some(!functions), "not beside on_open");
            assert_eq!(both.counts("on_ext4_unlink", functions), Some(false), "the kernel has no such tracepoint");
        }
        assert_eq!(both.counts("on_switch", true), None, "counts no files");
        assert_eq!(both.not_counted(false), Some(COUNTS_BY_TRACEPOINTS));
        let none = named(&["sched_switch"], &["security_file_open"]);
        assert_eq!(none.not_counted(false), Some(COUNTS));
        let names: Vec<&'static str> = COUNTED.iter().map(|(_, function)| *function).collect();
        assert_eq!(named(&[], &names).not_counted(true), None);
    }
}
