//! Lines that a runtime or a database client prints after a failure's reason: of a stack, or of the SQL statement.
//! They say where it happened, not why.

/// Notes that runtimes and PostgreSQL's clients print after the reason.
const NOTES: [&str; 7] =
    ["note: run with `RUST_BACKTRACE", "Node.js v", "Stack trace:", "stack backtrace:", "HINT:", "DETAIL:", "CONTEXT:"];

/// Returns the last line that says why a program failed: the last one that belongs to neither a stack nor a runtime's
/// notes.
pub(super) fn last_reason<'a>(lines: &[&'a str]) -> Option<&'a str> {
    let (mut last, mut in_details, mut after_frame) = (None, false, false);
    for (at, &line) in lines.iter().enumerate() {
        let text = line.trim();
        if !text.chars().any(char::is_alphanumeric) {
            in_details &= text != "}";
            continue;
        }
        let is_indented = line.starts_with([' ', '\t']);
        // (Python's source line, and Node's details of an error.)
        let belongs = is_indented && (after_frame || in_details);
        let frame = is_frame(text, is_indented) || is_called(text, lines.get(at + 1).copied());
        in_details = in_details && !frame || frame && text.ends_with(" {");
        after_frame = frame && text.starts_with("File \"");
        if !frame && !belongs {
            last = Some(line);
        }
    }
    last
}

/// Whether a line belongs to a stack of Java, Node, Python, Go, Ruby, Perl, PHP or Rust, or to an SQL statement.
fn is_frame(text: &str, is_indented: bool) -> bool {
    let ends_in_number = text.rsplit_once(':').is_some_and(|(_, end)| is_number(end));
    let behind = text.strip_suffix(" {").unwrap_or(text);
    is_indented && text.starts_with("at ") && (behind.ends_with(')') || ends_in_number)
        || text.starts_with("... ") && text.ends_with(" more")
        || text.starts_with("File \"") && text.contains(", line ")
        || text.starts_with("goroutine ") && text.ends_with("]:")
        || text.starts_with("created by ")
        || text.starts_with("[signal ")
        || is_indented && text.contains(".go:")
        || is_indented && text.starts_with("from ") && text.contains(":in ")
        || is_indented && text.contains(" called at ") && text.contains(" line ")
        || text.strip_prefix('#').is_some_and(|rest| rest.split(' ').next().is_some_and(is_number))
        || is_indented && text.starts_with("thrown in ")
        || is_indented && text.split_once(": ").is_some_and(|(number, _)| is_number(number))
        || text.strip_prefix("LINE ").and_then(|rest| rest.split_once(": ")).is_some_and(|(number, _)| is_number(number))
        || NOTES.iter().any(|note| text.starts_with(note))
}

/// Whether a line is the function of a Go frame, whose position is in the next line.
fn is_called(text: &str, next: Option<&str>) -> bool {
    text.ends_with(')') && next.is_some_and(|next| next.starts_with([' ', '\t']) && next.contains(".go:"))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn says(text: &str, reason: Option<&str>) {
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(last_reason(&lines), reason);
    }

    #[test]
    fn the_reason_stands_before_the_stack_or_behind_it() {
        says(
            "Exception in thread \"main\" java.lang.OutOfMemoryError: Java heap space\n\tat J.main(J.java:1)\n",
            Some("Exception in thread \"main\" java.lang.OutOfMemoryError: Java heap space"),
        );
        says(
            "java.lang.A: x\n\tat a.B.c(B.java:2)\nCaused by: java.io.B: no\n\tat a.B.d(Native Method)\n\t... 3 more\n",
            Some("Caused by: java.io.B: no"),
        );
        says("Traceback (most recent call last):\n  File \"/w/a.py\", line 3, in f\n    g()\n    ^^^\nOSError: no\n", Some("OSError: no"));
        says("Traceback (most recent call last):\n  File \"/w/a.py\", line 3, in f\n    g()\n", Some("Traceback (most recent call last):"));
        says(
            "Error: no such file, open '/x'\n    at Object.openSync (node:fs:601:3) {\n  errno: -2,\n  path: '/x'\n}\n\nNode.js v18.19.0\n",
            Some("Error: no such file, open '/x'"),
        );
        says("panic: boom\n\ngoroutine 1 [running]:\nmain.main()\n\t/w/a.go:5 +0x1d\n", Some("panic: boom"));
        says("a.rb:1:in `f': no (RuntimeError)\n\tfrom a.rb:3:in `<main>'\n", Some("a.rb:1:in `f': no (RuntimeError)"));
        says(
            "PHP Fatal error:  Uncaught Exception: no in /w/a.php:2\nStack trace:\n#0 {main}\n  thrown in /w/a.php on line 2\n",
            Some("PHP Fatal error:  Uncaught Exception: no in /w/a.php:2"),
        );
        says(
            "ERROR:  canceling statement due to lock timeout\nLINE 1: select n from t\n               ^\nHINT:  none\n",
            Some("ERROR:  canceling statement due to lock timeout"),
        );
        says("thread 'main' panicked at src/main.rs:2:5:\nboom\nnote: run with `RUST_BACKTRACE=1` environment variable\n", Some("boom"));
    }

    #[test]
    fn where_a_stack_alone_is_known_there_is_no_reason() {
        says("\tat a.B.c(B.java:2)\n\tat a.B.d(B.java:9)\n", None);
    }

    #[test]
    fn what_looks_like_a_frame_and_is_none_stays() {
        says("at least one file is wanted (see --help)\n", Some("at least one file is wanted (see --help)"));
        says("usage: x\n  -a  called at the end\n", Some("  -a  called at the end"));
    }
}
