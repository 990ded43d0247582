//! Selects the programs that count a command's files and names: on kernel functions or, if those cannot be attached
//! to, on tracepoints.

use crate::kernel::tracepoints::Tracepoints;

/// Counting programs, and the kernel functions they are attached to (fentry).
pub(crate) const COUNTED: [(&str, &str); 5] = [
    ("on_open", "security_file_open"),
    ("on_getattr", "security_inode_getattr"),
    ("on_unlink", "security_inode_unlink"),
    ("on_rename", "security_inode_rename"),
    ("on_listed", "filldir64"),
];

/// Substitutes where no program may be attached to functions: program, tracepoint, and the function program that
/// counts at least the same.
pub(crate) const STAND_INS: &[(&str, &str, &str)] = &[
    ("on_ext4_create", "ext4_allocate_inode", "on_open"),
    ("on_ext4_unlink", "ext4_unlink_enter", "on_unlink"),
    ("on_read_pages", "mm_filemap_get_pages", "on_open"),
];

/// Unknown facts if nothing is counted.
pub(crate) const COUNTS: &str = "how many files were opened, created, removed or renamed, and how many names listed";

/// Unknown facts if tracepoints count.
const COUNTS_BY_TRACEPOINTS: &str = "how many files were opened and not read, renamed, or asked for attributes, how many names listed, and what was created or removed elsewhere than on ext4";

/// Unknown facts if tracepoints count, but not reads.
const COUNTS_WITHOUT_READS: &str = "how many files were opened, renamed, or asked for attributes, how many names listed, and what was created or removed elsewhere than on ext4";

impl Tracepoints {
    /// Whether this program counts files here; `functions`: programs may be attached to functions. `None` if it never
    /// counts files.
    pub(crate) fn counts(&self, program: &str, functions: bool) -> Option<bool> {
        let on_function = |program| COUNTED.iter().find(|(name, _)| *name == program).map(|(_, f)| functions && self.has_function(f));
        let stand_in = STAND_INS.iter().find(|(name, _, _)| *name == program);
        on_function(program).or(stand_in.map(|(_, tracepoint, instead_of)| self.has(tracepoint) && on_function(instead_of) == Some(false)))
    }

    /// Returns what cannot be counted here; `None` if everything can.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_count_has_one_source_and_what_has_none_is_said() {
        let both = Tracepoints::named(&["ext4_allocate_inode", "mm_filemap_get_pages"], &["security_file_open", "security_inode_unlink"]);
        for functions in [true, false] {
            assert_eq!(both.counts("on_open", functions), Some(functions));
            assert_eq!(both.counts("on_ext4_create", functions), Some(!functions), "not beside on_open");
            assert_eq!(both.counts("on_read_pages", functions), Some(!functions), "not beside on_open");
            assert_eq!(both.counts("on_ext4_unlink", functions), Some(false), "the kernel has no such tracepoint");
        }
        assert_eq!(both.counts("on_switch", true), None, "counts no files");
        assert_eq!(both.not_counted(false), Some(COUNTS_BY_TRACEPOINTS));
        let none = Tracepoints::named(&["sched_switch"], &["security_file_open"]);
        assert_eq!(none.not_counted(false), Some(COUNTS));
        let names: Vec<&'static str> = COUNTED.map(|(_, function)| function).to_vec();
        assert_eq!(Tracepoints::named(&[], &names).not_counted(true), None);
    }
}
