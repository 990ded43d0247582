//! The name of a file while it is copied: `NAME.partial`, where that fits.
//!
//! A name of 248 bytes or more leaves no room for the suffix. It is cut at a character boundary, and a hash of the whole name replaces the
//! rest: `BEGINNING.0123456789abcdef.partial`. The result depends on the name only, so that the next copy finds the file a killed copy
//! left.

use thalweg_wire::limits;

const END: &[u8] = b".partial";

/// A dot and 16 digits.
const HASH_BYTES: usize = 17;

/// Bytes of a name kept, for people to recognise, where the file system allows fewer than [`limits::NAME_BYTES`].
const RECOGNISABLE_BYTES: usize = 64;

/// Returns the partial name of a single name.
pub(super) fn name_of(name: &[u8]) -> Vec<u8> {
    fitting(name, limits::NAME_BYTES)
}

/// Returns the path with its last name replaced by the partial name.
pub(super) fn path_of(path: &[u8]) -> Vec<u8> {
    let begin = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    let (above, name) = path.split_at(begin);
    let room = limits::PATH_BYTES.saturating_sub(above.len());
    let room = if room < HASH_BYTES + END.len() { limits::NAME_BYTES } else { room.min(limits::NAME_BYTES) };
    [above, &fitting(name, room)].concat()
}

/// Returns the partial path of a path that is text.
pub(super) fn text_of(path: &str) -> String {
    // The cut is at a character boundary, so no character is replaced.
    String::from_utf8_lossy(&path_of(path.as_bytes())).into_owned()
}

/// Returns the partial name of a single name, for a file system that found [`name_of`] too long.
pub(super) fn short_name_of(name: &[u8]) -> Vec<u8> {
    [beginning(name, RECOGNISABLE_BYTES), &hash(name), END].concat()
}

/// Returns a name, made from this one and a number, that is unlikely to be in use.
pub(super) fn unusual_name_of(name: &[u8], number: u64) -> Vec<u8> {
    [b".", beginning(name, RECOGNISABLE_BYTES), format!(".{number:016x}").as_bytes(), END].concat()
}

fn fitting(name: &[u8], room: usize) -> Vec<u8> {
    if name.len() + END.len() <= room {
        return [name, END].concat();
    }
    [beginning(name, room - HASH_BYTES - END.len()), &hash(name), END].concat()
}

/// Returns at most `most` bytes of a name, without splitting a character.
fn beginning(name: &[u8], most: usize) -> &[u8] {
    if name.len() <= most {
        return name;
    }
    let continues = |at: usize| name[at] & 0xc0 == 0x80;
    // Bytes that are not UTF-8 are cut at the limit.
    let end = (most.saturating_sub(3)..=most).rev().find(|at| !continues(*at)).unwrap_or(most);
    &name[..end]
}

/// Returns the FNV-1a hash in hex: distinguishes names cut to the same beginning.
fn hash(name: &[u8]) -> Vec<u8> {
    let hash = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    format!(".{hash:016x}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_partial_copy_fits_whatever_the_name_and_is_cut_between_characters() {
        assert_eq!(name_of(b"f"), b"f.partial");
        assert_eq!(path_of(b"/a/b/f"), b"/a/b/f.partial");
        for character in ["n", "ü", "語", "🗻"] {
            for bytes in 240..=255 {
                let whole = character.repeat(bytes / character.len());
                let name = format!("{whole}{}", "x".repeat(bytes - whole.len()));
                let partial = String::from_utf8(name_of(name.as_bytes())).unwrap();
                assert!(partial.len() <= limits::NAME_BYTES && partial.ends_with(".partial"), "{partial}");
                assert_eq!(partial == format!("{name}.partial"), bytes < 248, "{partial}");
                assert_eq!(text_of(&format!("/a/{name}")), format!("/a/{partial}"));
                assert!(String::from_utf8(short_name_of(name.as_bytes())).unwrap().len() <= 89);
                assert!(String::from_utf8(unusual_name_of(name.as_bytes(), 1)).unwrap().len() <= 90);
            }
        }
        let other = |last: &str| name_of(format!("{}{last}", "n".repeat(254)).as_bytes());
        assert_ne!(other("a"), other("b"));
        assert!(path_of(&[b"/", [b'd'; 200].as_slice()].concat().repeat(20)).len() <= limits::PATH_BYTES);
    }
}
