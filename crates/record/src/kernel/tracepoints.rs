//! Finds the running kernel's BTF tracepoints, and which of the wanted functions exist.
//!
//! The kernel's BTF names tracepoints `btf_trace_NAME`, and functions by their own names.

use super::types::{BtfFile, Types, kind};
use std::collections::HashMap;
use std::sync::Arc;

const PREFIX: &str = "btf_trace_";

/// The functions behind the iterators that programs use.
const WALKS: [&str; 2] = ["bpf_iter_task", "bpf_iter_task_file"];

/// The kernel's tracepoints, and the wanted functions that exist, each with its BTF type id.
#[derive(Clone, Debug)]
pub(crate) struct Tracepoints {
    names: HashMap<Vec<u8>, u32>,
    functions: HashMap<&'static str, u32>,
    types: Option<Arc<Types<BtfFile>>>,
}

impl Tracepoints {
    /// Reads those of the running kernel; `functions` are the wanted ones.
    pub(crate) fn of_kernel(functions: &[&'static str]) -> std::io::Result<Tracepoints> {
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
                    let asked = functions.iter().copied().chain(WALKS).find(|name| types.is_named(of, name));
                    found.functions.extend(asked.map(|name| (name, number)));
                }
                _ => {}
            }
        }
        Ok(found)
    }

    /// Makes a set with types 1 and 2, for tests.
    #[cfg(test)]
    pub(crate) fn named(tracepoints: &[&str], functions: &[&'static str]) -> Tracepoints {
        Tracepoints {
            names: tracepoints.iter().map(|name| (name.as_bytes().to_vec(), 1)).collect(),
            functions: functions.iter().map(|name| (*name, 2)).collect(),
            types: None,
        }
    }

    /// Returns the kernel's types that they are from.
    pub(crate) fn types(&self) -> Option<&Types<BtfFile>> {
        self.types.as_deref()
    }

    /// Returns the type id that a program of this section is attached to.
    pub(crate) fn target(&self, section: &str) -> Option<u32> {
        match section.split_once('/')? {
            ("tp_btf", tracepoint) => self.names.get(tracepoint.as_bytes()).copied(),
            ("fentry", function) => self.functions.get(function).copied(),
            ("iter", walk) => self.functions.get(format!("bpf_iter_{walk}").as_str()).copied(),
            _ => None,
        }
    }

    /// Whether the kernel has this tracepoint.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains_key(name.as_bytes())
    }

    /// Whether the kernel has this function.
    pub(crate) fn has_function(&self, name: &str) -> bool {
        self.functions.contains_key(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_s_section_says_what_it_is_attached_to() {
        let found = Tracepoints::named(&["sched_switch"], &["filldir64", "bpf_iter_task"]);
        assert!(found.has("sched_switch") && !found.has("sched_waking") && !found.has("filldir64"));
        assert_eq!(
            ["tp_btf/sched_switch", "fentry/filldir64", "iter/task"].map(|section| found.target(section)),
            [Some(1), Some(2), Some(2)]
        );
        assert_eq!(["tp_btf/filldir64", "fentry/vfs_read", "perf_event", "syscall"].map(|section| found.target(section)), [None; 4]);
    }
}
