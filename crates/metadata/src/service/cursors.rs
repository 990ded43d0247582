//! Pages of directories that are asked for before the page before them has come.
//!
//! A page begins after the last name of the one before, which only its answer gives. Requests of one connection are worked on in
//! order, though: so the service can remember that name for the client, and a listing need not wait a round trip for each page. What
//! is remembered is of use only to requests that were on their way already; a client that has an answer asks with the name.

use std::collections::VecDeque;
use thalweg_wire::protocol::metadata::After;
use thalweg_wire::{Error, ErrorKind, Result};

/// Walks of one connection whose last page is remembered: more than requests are ever on their way.
const REMEMBERED: usize = 32;

/// The last name of the page before, of each walk that was asked for last; `None`: that page was the last one.
#[derive(Debug, Default)]
pub(super) struct Continued(VecDeque<(u32, Option<Vec<u8>>)>);

impl Continued {
    /// The name after which this page begins, if it is not the first; `None`: the page before was the last one. Until
    /// [`Continued::answered`] nothing is known of a walk that goes on.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the page before was never asked for, could not be had, or is forgotten.
    pub(super) fn begin(&mut self, walk: u32, after: After) -> Result<Option<Option<Vec<u8>>>> {
        let known = self.0.iter().position(|(known, _)| *known == walk).and_then(|at| self.0.remove(at));
        match (after, known) {
            (After::Nothing, _) => Ok(Some(None)),
            (After::Name(name), _) => Ok(Some(Some(name))),
            (After::Page, Some((_, Some(name)))) => Ok(Some(Some(name))),
            (After::Page, Some((_, None))) => {
                self.answered(walk, None);
                Ok(None)
            }
            (After::Page, None) => {
                Err(Error::new(ErrorKind::Invalid, format!("the page before, of walk {walk}, is not known: ask with a name")))
            }
        }
    }

    /// The page that was begun ends with this name; `None`: it is the last one.
    pub(super) fn answered(&mut self, walk: u32, last: Option<&[u8]>) {
        if walk == 0 {
            return;
        }
        self.0.truncate(REMEMBERED - 1);
        self.0.push_front((walk, last.map(<[u8]>::to_vec)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_goes_on_where_the_one_before_ended() {
        let mut pages = Continued::default();
        assert_eq!(pages.begin(7, After::Nothing).unwrap(), Some(None));
        pages.answered(7, Some(b"m"));
        assert_eq!(pages.begin(8, After::Name(b"c".to_vec())).unwrap(), Some(Some(b"c".to_vec())));
        pages.answered(8, None);
        assert_eq!(pages.begin(7, After::Page).unwrap(), Some(Some(b"m".to_vec())));
        pages.answered(7, None);
        for walk in [7, 8, 7] {
            assert_eq!(pages.begin(walk, After::Page).unwrap(), None, "there is nothing after the last page");
        }
    }

    #[test]
    fn what_does_not_follow_a_page_is_refused() {
        let mut pages = Continued::default();
        assert_eq!(pages.begin(1, After::Page).unwrap_err().kind(), ErrorKind::Invalid);
        pages.begin(1, After::Nothing).unwrap();
        pages.answered(1, Some(b"a"));
        // It failed: nothing was answered.
        pages.begin(1, After::Page).unwrap();
        assert_eq!(pages.begin(1, After::Page).unwrap_err().kind(), ErrorKind::Invalid);
        // A walk without a number is remembered by nobody.
        pages.begin(0, After::Nothing).unwrap();
        pages.answered(0, Some(b"a"));
        assert_eq!(pages.begin(0, After::Page).unwrap_err().kind(), ErrorKind::Invalid);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut pages = Continued::default();
        for walk in 1..=100 {
            pages.begin(walk, After::Nothing).unwrap();
            pages.answered(walk, Some(b"x"));
        }
        assert_eq!(pages.0.len(), REMEMBERED);
        assert!(pages.begin(100, After::Page).unwrap().is_some());
        assert!(pages.begin(1, After::Page).is_err());
    }
}
