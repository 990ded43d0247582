//! Exports a profile as folded stacks, the input of flame graph scripts: one `program;outermost;...;innermost
//! SAMPLES` per line. Kernel functions end in `_[k]`. With several machines, the machine's name comes first.

use super::stacks::Stacks;
use crate::{Source, TraceError};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes the stacks of `source` to the file `out`.
///
/// # Errors
/// The recording cannot be read, or the file not written.
pub fn export(source: &dyn Source, out: &Path) -> Result<(), TraceError> {
    let failed = |e: std::io::Error| TraceError::new(out, format!("cannot be written: {e}"));
    let stacks = Stacks::counted(source)?;
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for ((host, program, stack), counted) in &stacks.counted {
        let mut line = match source.hosts() {
            [] | [_] => String::new(),
            hosts => hosts.iter().find(|h| h.host == *host).map_or_else(|| format!("host {};", host.0), |h| format!("{};", plain(&h.name))),
        };
        line.push_str(&plain(program));
        for function in stacks.frames(*stack).iter().rev().filter_map(|number| stacks.functions.get(*number as usize)) {
            line.push(';');
            line.push_str(&plain(&function.name));
            if function.is_kernel {
                line.push_str("_[k]");
            }
        }
        *lines.entry(line).or_default() += counted.samples;
    }
    let mut file = BufWriter::new(File::create(out).map_err(|e| TraceError::new(out, format!("cannot be created: {e}")))?);
    lines.iter().try_for_each(|(line, samples)| writeln!(file, "{line} {samples}")).map_err(failed)?;
    file.flush().map_err(failed)
}

/// Removes the characters that separate names and lines.
fn plain(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c == ';' {
                ':'
            } else if c.is_control() {
                ' '
            } else {
                c
            }
        })
        .collect()
}
