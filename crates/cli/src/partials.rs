//! Partial copies in a store: files that a copy has begun and not finished, as the metadata service remembers them.
//!
//! Their names play no part: a person's own `x.partial` is none of them.

use crate::session::Session;
use crate::walking::Troubles;
use crate::{failure::Failure, names, output};
use serde::Serialize;
use std::time::Duration;
use thalweg_store::ErrorKind;
use thalweg_store::protocol::metadata::DraftEntry;
use thalweg_trace::numbers;

/// How many there are, and the space that they take.
#[derive(Serialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Partials {
    /// Of clients that are gone.
    pub abandoned: u64,
    /// Their space. Absent when a server did not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abandoned_bytes: Option<u64>,
    /// Being written, or their writer may come back.
    pub writing: u64,
    /// Their space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writing_bytes: Option<u64>,
}

impl Partials {
    /// Those of a store.
    pub fn of(session: &Session) -> Result<Partials, Failure> {
        let mut told = Partials { abandoned_bytes: Some(0), writing_bytes: Some(0), ..Partials::default() };
        for draft in session.drafts()? {
            let space = session.draft_space(&draft);
            let (count, bytes) = match draft.abandoned_for_ns {
                Some(_) => (&mut told.abandoned, &mut told.abandoned_bytes),
                None => (&mut told.writing, &mut told.writing_bytes),
            };
            *count += 1;
            *bytes = bytes.zip(space).map(|(sum, more)| sum.saturating_add(more));
        }
        Ok(told)
    }

    /// In a line for a person; `None`: there is nothing to say.
    pub fn line(&self) -> Option<String> {
        let files = |n: u64| if n == 1 { "1 partial copy".to_owned() } else { format!("{n} partial copies") };
        let space = |bytes: Option<u64>| bytes.map_or("?".to_owned(), numbers::size);
        let abandoned = (self.abandoned > 0).then(|| {
            let (files, space) = (files(self.abandoned), space(self.abandoned_bytes));
            format!("{files} of clients that are gone, {space} (thalweg rm --partials removes them)")
        });
        let writing = (self.writing > 0).then(|| format!("{} being written, {}", files(self.writing), space(self.writing_bytes)));
        let parts: Vec<String> = abandoned.into_iter().chain(writing).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Removes those below a path that have been abandoned for so long, and says which; or only says which.
pub fn remove(session: &Session, below: &[u8], older_than: Duration, only_list: bool, troubles: &mut Troubles) -> Result<(), Failure> {
    for draft in session.drafts()? {
        let path = path_of(&draft);
        let Some(age) = draft.abandoned_for_ns.map(Duration::from_nanos).filter(|age| *age >= older_than) else { continue };
        if !is_below(&path, below) {
            continue;
        }
        let space = session.draft_space(&draft).map_or("?".to_owned(), numbers::size);
        let said = format!("{}: {space}, abandoned {} ago", names::text(&path), numbers::age(age));
        if only_list {
            output::line(&said)?;
            continue;
        }
        match session.remove_draft(&draft, older_than) {
            Ok(()) => output::line(&format!("{said}: removed"))?,
            // Its writer is back, or it has its name by now, or somebody else has removed it.
            Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::NotFound) => {}
            Err(error) => troubles.of(&path, &error),
        }
    }
    Ok(())
}

fn path_of(draft: &DraftEntry) -> Vec<u8> {
    let deep = || names::join(format!("(directory {})", draft.place.from).as_bytes(), &draft.place.path);
    draft.path.clone().unwrap_or_else(deep)
}

fn is_below(path: &[u8], below: &[u8]) -> bool {
    let end = below.iter().rposition(|b| *b != b'/').map_or(0, |at| at + 1);
    let below = &below[..end];
    path.strip_prefix(below).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_below_a_path_is_meant() {
        assert!(is_below(b"/a/b.partial", b"/") && is_below(b"/a/b.partial", b"/a") && is_below(b"/a/b.partial", b"/a/"));
        assert!(is_below(b"/a/b.partial", b"/a/b.partial"));
        assert!(!is_below(b"/ab/c.partial", b"/a") && !is_below(b"(directory 7)/c.partial", b"/a"));
        assert!(!is_below(b"/a", b"/a/b"));
    }

    #[test]
    fn a_line_says_what_there_is_and_nothing_where_there_is_nothing() {
        assert_eq!(Partials::default().line(), None);
        let told = Partials { abandoned: 1, abandoned_bytes: Some(3 << 20), writing: 2, writing_bytes: None };
        let line = told.line().unwrap();
        assert_eq!(
            line,
            "1 partial copy of clients that are gone, 3 MiB (thalweg rm --partials removes them); 2 partial copies being written, ?"
        );
    }
}
