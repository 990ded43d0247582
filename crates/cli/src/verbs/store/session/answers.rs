//! Errors and entries, as answers have them.

use super::requests::Path;
use crate::listing::kind_text;
use serde_json::{Value, json};
use thalweg_wire::protocol::metadata::{Attributes, FileKind};
use thalweg_wire::{Error, ErrorKind};

/// Returns the kind of an error in a few words of which a client can make its own exceptions; `errno` tells more.
fn kind_name(kind: ErrorKind) -> &'static str {
    use ErrorKind::*;
    match kind {
        NotFound | Stale => "not_found",
        Exists => "exists",
        NotDirectory => "not_a_directory",
        IsDirectory => "is_a_directory",
        NotEmpty => "not_empty",
        Corrupt | Lost | Absent => "damaged",
        Access | NotPermitted | Encrypted => "refused",
        Refused | Reset | TimedOut | Restarted => "unreachable",
        NoSpace | Quota => "no_space",
        Invalid | NameTooLong | TooLarge | TooLong | CrossLot | LinkLoop => "invalid",
        Busy | WouldBlock | Deadlock => "busy",
        Unsupported | Protocol | Version => "unsupported",
        _ => "failed",
    }
}

/// Returns an error as an answer has it: its kind, its errno, and a sentence that says what happened, without the file.
pub(super) fn problem(error: &Error) -> Value {
    // The metadata service names the path of one of many operations.
    let prefix = error.file().map(|file| format!("{file}: "));
    let message = prefix.and_then(|prefix| error.message().strip_prefix(&prefix)).unwrap_or(error.message());
    let text = match error.server() {
        Some(server) => format!("server {server}: {message}"),
        None => message.to_owned(),
    };
    json!({ "kind": kind_name(error.kind()), "errno": error.kind().errno(), "text": text, "file": error.file() })
}

/// A file or directory, as listings and `stat` return it.
pub(super) struct Entry<'a> {
    pub name: &'a [u8],
    pub attributes: &'a Attributes,
    /// A file's size, or why it is not known.
    pub size: Option<Result<u64, Error>>,
    /// The target of the symbolic link that was followed, or could not be.
    pub link: Option<&'a [u8]>,
}

impl Entry<'_> {
    /// Returns the entry as an answer has it.
    pub(super) fn answer(&self) -> Value {
        let of = self.attributes;
        let mut answer = json!({
            "name": Path::of(self.name),
            "type": kind_text(of.kind),
            "id": of.id.to_string(),
            "mode": of.mode,
            "uid": of.uid,
            "gid": of.gid,
            "modified_ns": of.modified_ns,
            "created_ns": of.created_ns,
        });
        match &self.size {
            Some(Ok(size)) => answer["size"] = json!(size),
            Some(Err(error)) => answer["problem"] = problem(error),
            None if of.kind == FileKind::File => {}
            None => answer["size"] = json!(0),
        }
        if let Some(target) = self.link {
            answer["link"] = json!(Path::of(target));
        }
        answer
    }
}
