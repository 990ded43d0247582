//! Words for each class of code: one list for rows, evidence and pages.

/// Returns what follows "71 % of it".
pub(crate) fn activity(class: &str) -> String {
    match class {
        "user" => "in its own code".to_owned(),
        "read" => "copying in read(2)".to_owned(),
        "write" => "copying in write(2)".to_owned(),
        "send" => "sending".to_owned(),
        "receive" => "receiving".to_owned(),
        "sync" => "in fsync(2)".to_owned(),
        "sync.write" => "in synchronous writes".to_owned(),
        "poll" => "polling".to_owned(),
        "softirq" => "in network and block interrupts".to_owned(),
        "fault" => "faulting pages in".to_owned(),
        "other" => "elsewhere in the kernel".to_owned(),
        other => format!("in {other}"),
    }
}
