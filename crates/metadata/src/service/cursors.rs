//! Pages of directories requested before the previous page has arrived.
//!
//! A page starts after the last name of the previous one, which only that one's answer contains. Since requests of a connection are
//! executed in order, the service remembers that name for the client, so that a listing need not wait a round trip for each page. This only
//! serves requests already in flight; a client that has the answer sends the name.

use std::collections::VecDeque;
use thalweg_wire::protocol::metadata::After;
use thalweg_wire::{Error, ErrorKind, Result};

/// Bound: walks of a connection whose last page is remembered, above the maximum in flight.
const REMEMBERED: usize = 32;

/// The last name of the last page of each recent walk; `None` if that was the directory's last page.
#[derive(Debug, Default)]
pub(super) struct Continued(VecDeque<(u32, Option<Vec<u8>>)>);

impl Continued {
    /// Returns the name after which this page starts, if it is not the first; `None` if the previous page was the last one. Forgets a
    /// continued walk until [`Continued::answered`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the previous page was not requested, failed, or is forgotten.
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
                Err(Error::new(ErrorKind::Invalid, format!("the previous page of walk {walk} is unknown: request the page by name")))
            }
        }
    }

    /// Records that the page ends with this name; `None` if it is the last one.
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
        // The page failed: there was no answer.
        pages.begin(1, After::Page).unwrap();
        assert_eq!(pages.begin(1, After::Page).unwrap_err().kind(), ErrorKind::Invalid);
        // A walk without a number is not remembered.
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
