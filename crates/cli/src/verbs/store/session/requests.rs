//! What can be asked: the heads of requests.

use super::frames::{Frame, PROTOCOL, Unreadable};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thalweg_wire::{Error, ErrorKind};

/// The name of a file or directory, or a path from the root: text, or its bytes in hexadecimal where they are not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub(super) enum Path {
    Text(String),
    Bytes { hexadecimal: String },
}

impl Path {
    /// Makes a name of bytes.
    pub(super) fn of(bytes: &[u8]) -> Path {
        match std::str::from_utf8(bytes) {
            Ok(text) => Path::Text(text.to_owned()),
            Err(_) => Path::Bytes { hexadecimal: crate::names::hexadecimal(bytes) },
        }
    }

    /// Returns its bytes.
    ///
    /// # Errors
    /// When the digits are none.
    pub(super) fn bytes(&self) -> Result<Vec<u8>, Error> {
        let digits = match self {
            Path::Text(text) => return Ok(text.clone().into_bytes()),
            Path::Bytes { hexadecimal } => hexadecimal.as_bytes(),
        };
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let byte = |pair: &[u8]| if let [high, low] = pair { Some(digit(*high)? << 4 | digit(*low)?) } else { None };
        let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
        bytes.ok_or_else(|| Error::new(ErrorKind::Invalid, "`hexadecimal` of a path: expected two digits for each byte"))
    }

    /// Returns it as text.
    ///
    /// # Errors
    /// When it is not UTF-8.
    pub(super) fn text(&self) -> Result<String, Error> {
        let bytes = self.bytes()?;
        String::from_utf8(bytes).map_err(|e| {
            let problem = "the path is not UTF-8: such a file can be read, renamed and removed, but not written";
            Error::new(ErrorKind::Unsupported, problem).on_file(crate::names::text(e.as_bytes()))
        })
    }
}

/// Begin and end of bytes to read. A negative number counts from the end of the file; no end means the file's.
pub(super) type Wanted = (i64, Option<i64>);

/// An end of a copy.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum CopyEnd {
    /// A path in the store.
    Path(Path),
    /// A path on this machine.
    Local(Path),
}

/// What to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Removed {
    /// Anything but a directory.
    File,
    /// An empty directory.
    Directory,
    /// A directory with everything in it, or anything else.
    Tree,
}

/// Declares the requests, and the list of their names for the greeting and for errors.
macro_rules! requests {
    ($($(#[$doc:meta])* $name:literal $variant:ident { $($(#[$attribute:meta])* $field:ident: $type:ty),* $(,)? })+) => {
        /// A request.
        #[derive(Clone, Debug, Deserialize)]
        #[serde(tag = "do")]
        pub(super) enum Request {
            $($(#[$doc])* #[serde(rename = $name)] $variant { $($(#[$attribute])* $field: $type),* }),+
        }

        /// The names of all requests.
        pub(super) const NAMES: &[&str] = &[$($name),+];
    };
}

requests! {
    /// Returns one file or directory. Symbolic links are followed.
    "stat" Stat { path: Path }
    /// Lists a directory; with a `depth` over 1, also those below it.
    "list" List { path: Path, #[serde(default = "one")] depth: u32 }
    /// Opens a file for reading, and reads ranges of it.
    "open" Open { path: Path, #[serde(default)] ranges: Vec<Wanted> }
    /// Reads ranges of an open file.
    "read" Read { file: u64, ranges: Vec<Wanted> }
    /// Closes an open file.
    "close" Close { file: u64 }
    /// Creates a file, which has its name when it is published; with `parents`, also the directories above.
    "create" Create { path: Path, #[serde(default)] replace: bool, #[serde(default)] parents: bool }
    /// Writes the frame's bytes into a file that was created.
    "write" Write { file: u64, offset: u64 }
    /// Gives a file that was created its name; all its `size` bytes are written.
    "publish" Publish { file: u64, size: u64, #[serde(default)] sync: bool }
    /// Removes a file that was created and not published.
    "discard" Discard { file: u64 }
    /// Creates, writes and publishes a file of the frame's bytes.
    "put" Put { path: Path, #[serde(default)] replace: bool, #[serde(default)] parents: bool, #[serde(default)] sync: bool }
    /// Makes a directory; with `parents`, also those above; with `exists`, an existing one is no error.
    "mkdir" MakeDirectory { path: Path, #[serde(default)] parents: bool, #[serde(default)] exists: bool }
    /// Removes a name.
    "remove" Remove { path: Path, what: Removed }
    /// Renames a file or directory.
    "rename" Rename { from: Path, to: Path, #[serde(default)] replace: bool }
    /// Copies a file within the store, out of it or into it; `parents` are of the store.
    "copy" Copy { from: CopyEnd, to: CopyEnd, #[serde(default)] replace: bool, #[serde(default)] parents: bool, #[serde(default)] sync: bool }
    /// Sets the time of a file's last change to now.
    "touch" Touch { path: Path }
}

fn one() -> u32 {
    1
}

/// A request with its number, and the frame's bytes.
pub(super) struct Asked {
    pub id: u64,
    /// The request, or why it is none that this session knows.
    pub request: Result<Request, Error>,
    pub body: Vec<u8>,
}

/// Reads a frame's head.
///
/// # Errors
/// It has no number that an answer could bear.
pub(super) fn number(frame: Frame) -> Result<Asked, Unreadable> {
    let no_request = |why: String| Unreadable::NoRequest(why);
    let head: Value = serde_json::from_slice(&frame.head).map_err(|e| no_request(e.to_string()))?;
    let id = head.get("id").and_then(Value::as_u64).ok_or_else(|| no_request("no `id`".to_owned()))?;
    Ok(Asked { id, request: request(head), body: frame.body })
}

fn request(head: Value) -> Result<Request, Error> {
    let name = head.get("do").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !NAMES.contains(&name.as_str()) {
        let problem = format!("request `{name}` is not known to {}: expected one of {}", PROTOCOL, NAMES.join(", "));
        return Err(Error::new(ErrorKind::Unsupported, problem));
    }
    serde_json::from_value(head).map_err(|e| Error::new(ErrorKind::Invalid, format!("request `{name}`: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(head: &str) -> Result<Asked, Unreadable> {
        number(Frame { head: head.as_bytes().to_vec(), body: Vec::new() })
    }

    #[test]
    fn what_has_no_number_ends_a_session_and_what_is_not_known_does_not() {
        for bad in ["", "[1]", "{}", "{\"id\": -1}", "{\"id\": \"1\", \"do\": \"stat\"}", "\u{0}"] {
            assert!(matches!(asked(bad), Err(Unreadable::NoRequest(_))), "{bad}");
        }
        let said = |head: &str| asked(head).unwrap().request.unwrap_err();
        let unknown = said("{\"id\": 7, \"do\": \"fly\"}");
        assert_eq!(unknown.kind(), ErrorKind::Unsupported);
        assert!(unknown.to_string().contains("`fly`") && unknown.to_string().contains("stat, list, open"), "{unknown}");
        assert!(said("{\"id\": 7, \"do\": \"stat\"}").to_string().contains("`path`"));
        assert_eq!(said("{\"id\": 7, \"do\": \"write\", \"file\": 1, \"offset\": -1}").kind(), ErrorKind::Invalid);
        assert!(asked("{\"id\": 7, \"do\": \"list\", \"path\": \"/\", \"of a later version\": 1}").unwrap().request.is_ok());
    }

    #[test]
    fn paths_are_any_bytes() {
        for bytes in [&b"/a b\n"[..], "/ä".as_bytes(), b"/\xff\x00"] {
            let text = serde_json::to_string(&Path::of(bytes)).unwrap();
            assert_eq!(serde_json::from_str::<Path>(&text).unwrap().bytes().unwrap(), bytes, "{text}");
        }
        for bad in ["f", "fg", "+1", "ä"] {
            assert_eq!(Path::Bytes { hexadecimal: bad.to_owned() }.bytes().unwrap_err().kind(), ErrorKind::Invalid, "{bad}");
        }
        assert_eq!(Path::of(b"/\xff").text().unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
