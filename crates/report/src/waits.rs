//! Stacks of the longest waits of a charge, a line for each.

use thalweg_base::numbers::{count, duration};
use thalweg_base::text::{clean, cut, cut_end, width};
use thalweg_explain::document::WaitStack;

/// Separator between a function and its caller.
const CALLED_BY: &str = " < ";
/// Maximum length of a name (C++ names can be very long).
const LONGEST_NAME: usize = 40;

/// Formats a line of at most `columns`.
pub(crate) fn line(wait: &WaitStack, columns: usize) -> String {
    let longest = duration(wait.longest_s);
    let long = if wait.count > 1 { format!("{longest}, the longest of {}, in ", count(wait.count)) } else { format!("{longest} in ") };
    let room = columns.saturating_sub(width(&long));
    cut_end(&(long + &stack(&wait.functions, &wait.kernel, room)), columns)
}

/// Formats a stack in about `room` columns.
pub(crate) fn stack(functions: &[String], kernel: &[String], room: usize) -> String {
    if functions.is_empty() {
        return format!("the kernel: {}", chain(kernel, room.saturating_sub("the kernel: ".len())));
    }
    let whole = chain(functions, room);
    // The program's functions come first: the kernel's is left out if they would have to be cut for it.
    let below = kernel.first().map(|function| format!(" (kernel: {})", cut(&clean(function), LONGEST_NAME)));
    let below = below.filter(|below| width(&whole) + width(below) <= room).unwrap_or_default();
    whole + &below
}

/// Formats a chain of calls, innermost function first; callers in the middle are dropped if needed, but not the outermost, which shows the
/// purpose.
fn chain(functions: &[String], columns: usize) -> String {
    let names: Vec<String> = functions.iter().map(|function| cut(&clean(function), LONGEST_NAME)).collect();
    let whole = names.join(CALLED_BY);
    let Some((outermost, inner)) = names.split_last().filter(|_| width(&whole) > columns) else { return whole };
    let with = |kept: usize| format!("{}{CALLED_BY}…{CALLED_BY}{outermost}", inner[..kept].join(CALLED_BY));
    let fitting = (1..inner.len()).rev().map(with).find(|text| width(text) <= columns);
    fitting.unwrap_or_else(|| cut_end(&whole, columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(count: u64, functions: &[&str], kernel: &[&str]) -> WaitStack {
        let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        WaitStack { count, seconds: 0.2, longest_s: 0.0123, at_s: 1.0, track: 1, functions: all(functions), kernel: all(kernel) }
    }

    #[test]
    fn a_line_names_the_innermost_functions_and_the_outermost() {
        let deep = ["fdatasync", "unixSync", "sqlite3PagerCommitPhaseOne", "sqlite3VdbeHalt", "sqlite3_step", "main"];
        let kernel = ["jbd2_log_wait_commit", "ext4_sync_file"];
        assert_eq!(line(&wait(1, &deep[..1], &[]), 78), "12.3 ms in fdatasync");
        let said = "12.3 ms, the longest of 24, in fdatasync < main (kernel: jbd2_log_wait_commit)";
        assert_eq!(line(&wait(24, &["fdatasync", "main"], &kernel), 78), said);
        assert_eq!(line(&wait(1, &deep, &kernel), 60), "12.3 ms in fdatasync < unixSync < … < main");
        assert_eq!(line(&wait(1, &[], &kernel), 78), "12.3 ms in the kernel: jbd2_log_wait_commit < ext4_sync_file");
        for columns in 20..120 {
            assert!(width(&line(&wait(24, &deep, &kernel), columns)) <= columns);
        }
    }
}
