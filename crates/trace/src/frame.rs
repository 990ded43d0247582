//! One frame of a stack, as text in `stacks.frames`.
//!
//! ```text
//! tcp_sendmsg+0x27 [kernel]
//! memcpy+0x12 [/usr/lib/libc.so.6 5792…d1+0x9f120]      symbol, module, build identifier, offset in the module's
//! file
//! [/usr/bin/gzip 77ab…02+0x5120]                        not symbolised; can be done later on a machine with the file
//! render [jit]    __vdso_gettime+0x8 [vdso]    [unknown]
//! [truncated]                                           not a frame: the stack could not be followed further out
//! ```
//!
//! This is the kernel's notation (`symbol+offset [module]`) plus what is needed to resolve a frame on another
//! machine.

use std::fmt;

/// Module of kernel frames. Loadable kernel modules have their own names, without a slash.
pub const KERNEL: &str = "kernel";
/// Module of code generated at run time (named by perf's map files).
pub const JIT: &str = "jit";
/// Module of the code that the kernel maps into each process.
pub const VDSO: &str = "vdso";
/// Module of an address outside every mapping.
pub const UNKNOWN: &str = "unknown";
/// Placed at the outer end of a user stack that could not be followed to its beginning.
pub const TRUNCATED: &str = "truncated";

/// One frame of a stack. Parsing never fails: text of another form is a symbol without a module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The function, if known.
    pub symbol: Option<String>,
    /// Bytes from the function's start.
    pub offset: u64,
    /// A path, [`KERNEL`], [`JIT`], [`VDSO`], [`UNKNOWN`], [`TRUNCATED`], or the name of a kernel module; empty in
    /// recordings that do not say.
    pub module: String,
    /// The build identifier of the module's file, in hexadecimal.
    pub build_id: Option<String>,
    /// The offset in the module's file, if the module is a file.
    pub file_offset: Option<u64>,
}

impl Frame {
    /// Whether the frame belongs to a program or library rather than the kernel.
    #[must_use]
    pub fn is_user(&self) -> bool {
        self.module.starts_with('/') || [JIT, VDSO, UNKNOWN, TRUNCATED].contains(&self.module.as_str())
    }

    /// Returns the function or, in brackets, the module (a file without its directory) and the offset in it, as far
    /// as known.
    #[must_use]
    pub fn function(&self) -> String {
        if let Some(symbol) = &self.symbol {
            return symbol.clone();
        }
        let module = self.module.rsplit_once('/').map_or(self.module.as_str(), |(_, base)| base);
        let module = if module.is_empty() { UNKNOWN } else { module };
        self.file_offset.map_or_else(|| format!("[{module}]"), |offset| format!("[{module}+{offset:#x}]"))
    }

    /// Parses a frame's text.
    #[must_use]
    pub fn parse(text: &str) -> Frame {
        let (function, module) = match text.strip_suffix(']').and_then(|text| text.rsplit_once('[')) {
            Some((function, module)) if function.is_empty() || function.ends_with(' ') => (function.trim_end(), module),
            _ => (text, ""),
        };
        let (symbol, offset) = match function.rsplit_once("+0x").and_then(|(s, o)| Some((s, u64::from_str_radix(o, 16).ok()?))) {
            Some((symbol, offset)) => (symbol, offset),
            None => (function, 0),
        };
        let (name, place) = module.split_once(' ').unwrap_or((module, ""));
        let (build_id, file_offset) = match place.rsplit_once("+0x") {
            Some((id, offset)) => (Some(id).filter(|id| !id.is_empty()), u64::from_str_radix(offset, 16).ok()),
            None => (Some(place).filter(|id| !id.is_empty()), None),
        };
        Frame {
            symbol: Some(symbol).filter(|s| !s.is_empty()).map(str::to_owned),
            offset,
            module: unescaped(name),
            build_id: build_id.map(str::to_owned),
            file_offset,
        }
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(symbol) = &self.symbol {
            write!(f, "{symbol}")?;
            if self.offset != 0 {
                write!(f, "+{:#x}", self.offset)?;
            }
            if !self.module.is_empty() {
                write!(f, " ")?;
            }
        }
        if self.module.is_empty() {
            return Ok(());
        }
        write!(f, "[{}", escaped(&self.module))?;
        if self.build_id.is_some() || self.file_offset.is_some() {
            write!(f, " {}", self.build_id.as_deref().unwrap_or_default())?;
        }
        if let Some(offset) = self.file_offset {
            write!(f, "+{offset:#x}")?;
        }
        write!(f, "]")
    }
}

/// Escapes the characters that would end a path: blanks, brackets and `%` become `%20`, `%5b`, `%5d`, `%25`.
fn escaped(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for c in path.chars() {
        match c {
            '%' | '[' | ']' => text.push_str(&format!("%{:02x}", c as u32)),
            c if c.is_ascii_whitespace() => text.push_str(&format!("%{:02x}", c as u32)),
            c => text.push(c),
        }
    }
    text
}

fn unescaped(text: &str) -> String {
    let mut path = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        path.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(u8::is_ascii);
        match code {
            Some(code) => {
                path.push(code as char);
                rest = &rest[at + 3..];
            }
            None => {
                path.push('%');
                rest = &rest[at + 1..];
            }
        }
    }
    path.push_str(rest);
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(symbol: &str, offset: u64, module: &str, build_id: &str, file_offset: Option<u64>) -> Frame {
        let some = |text: &str| Some(text.to_owned()).filter(|t| !t.is_empty());
        Frame { symbol: some(symbol), offset, module: module.to_owned(), build_id: some(build_id), file_offset }
    }

    #[test]
    fn frames_are_written_as_the_kernel_writes_them() {
        assert_eq!(frame("tcp_sendmsg", 0x27, KERNEL, "", None).to_string(), "tcp_sendmsg+0x27 [kernel]");
        assert_eq!(frame("memcpy", 0x12, "/lib/libc.so.6", "ab01", Some(0x9f)).to_string(), "memcpy+0x12 [/lib/libc.so.6 ab01+0x9f]");
        assert_eq!(frame("", 0, "/bin/gzip", "77", Some(0x51)).to_string(), "[/bin/gzip 77+0x51]");
        assert_eq!(frame("", 0, UNKNOWN, "", None).to_string(), "[unknown]");
        assert!(Frame::parse("[truncated]").is_user() && !Frame::parse("[truncate_pages]").is_user());
    }

    #[test]
    fn a_function_without_a_name_is_its_module_and_place() {
        let said = |text: &str| Frame::parse(text).function();
        let texts = ["memcpy+0x12 [/lib/libc.so.6 ab01+0x9f]", "[/bin/gzip 77+0x51]", "[jit]", "[unknown]", ""];
        assert_eq!(texts.map(said), ["memcpy", "[gzip+0x51]", "[jit]", "[unknown]", "[unknown]"]);
    }

    #[test]
    fn a_frame_without_a_module_is_a_symbol() {
        assert_eq!(Frame::parse("do_idle+0x1f"), frame("do_idle", 0x1f, "", "", None));
        assert_eq!(Frame::parse("operator[]"), frame("operator[]", 0, "", "", None));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_the_same(
            symbol in "([a-zA-Z_][a-z:<>~&, \\[\\]A-Z0-9]{0,20}[a-z>)])?", offset in 1_u64..1 << 40,
            module in "(/[^\\x00]{1,20}|kernel|jit|virtio_net)", build_id in "[0-9a-f]{0,40}", file_offset in proptest::option::of(0_u64..1 << 40),
        ) {
            let offset = if symbol.is_empty() { 0 } else { offset };
            let written = frame(&symbol, offset, &module, &build_id, file_offset);
            prop_assert_eq!(Frame::parse(&written.to_string()), written);
        }

        #[test]
        fn any_text_is_read(text in "\\PC{0,40}") {
            let _ = Frame::parse(&text);
        }
    }
}
