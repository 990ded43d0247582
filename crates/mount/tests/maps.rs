//! Files that one program maps while another writes them through a write-only descriptor, for which the kernel caches no pages.

mod stand;

use stand::Stand;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};

const PAGE: usize = 4096;

/// A file's first pages, mapped for reading and writing.
struct Map {
    at: *mut u8,
    bytes: usize,
}

// SAFETY: the mapping lives as long as this, and its bytes are only used as atomics.
unsafe impl Sync for Map {}
// SAFETY: as above.
unsafe impl Send for Map {}

impl Map {
    fn of(file: &File, bytes: usize) -> Map {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address the kernel chooses overlaps no other memory.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        assert_ne!(at, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        Map { at: at.cast(), bytes }
    }

    fn byte(&self, place: usize) -> &AtomicU8 {
        assert!(place < self.bytes);
        // SAFETY: within the mapping, which lives as long as the reference; a byte has no alignment.
        unsafe { AtomicU8::from_ptr(self.at.add(place)) }
    }

    fn sync(&self) {
        // SAFETY: the range is the mapping.
        assert_eq!(unsafe { libc::msync(self.at.cast(), self.bytes, libc::MS_SYNC) }, 0);
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping, which is no longer used.
        unsafe { libc::munmap(self.at.cast(), self.bytes) };
    }
}

fn both(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

fn only_to_write(path: &Path) -> File {
    OpenOptions::new().write(true).open(path).unwrap()
}

/// One thread changes the even bytes of two pages through a mapping, another concurrently writes the odd ones through a descriptor: each
/// byte must be its writer's last value, in the mapping, in a read, and on another mount after closing.
fn no_byte_of_either_is_lost(map_is_first: bool) {
    let stand = Stand::new(2);
    let (a, b) = (stand.mount("a"), stand.mount("b"));
    let many = 2 * PAGE;
    std::fs::write(a.at("f"), vec![0; many]).unwrap();
    let (mapped, writer) = if map_is_first {
        let mapped = both(&a.at("f"));
        (mapped, only_to_write(&a.at("f")))
    } else {
        let writer = only_to_write(&a.at("f"));
        (both(&a.at("f")), writer)
    };
    let map = Map::of(&mapped, many);
    for round in 1..=20_u8 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for place in (0..many).step_by(2) {
                    map.byte(place).store(round, Ordering::Relaxed);
                }
            });
            for place in (1..many).step_by(2 * 61) {
                writer.write_all_at(&[round], place as u64).unwrap_or_else(|error| panic!("round {round}, byte {place}: {error}"));
            }
        });
        let expected = |place: usize| if place.is_multiple_of(2) || place % (2 * 61) == 1 { round } else { 0 };
        let mut read = vec![0; many];
        mapped.read_exact_at(&mut read, 0).unwrap();
        for (place, byte) in read.iter().enumerate() {
            assert_eq!(map.byte(place).load(Ordering::Relaxed), expected(place), "round {round}, byte {place} of the map");
            assert_eq!(*byte, expected(place), "round {round}, byte {place} of a read");
        }
    }
    map.sync();
    drop((map, mapped, writer));
    let found = std::fs::read(b.at("f")).unwrap();
    for (place, byte) in found.iter().enumerate() {
        let expected = if place.is_multiple_of(2) || place % (2 * 61) == 1 { 20 } else { 0 };
        assert_eq!(*byte, expected, "byte {place} on another mount");
    }
}

#[test]
fn no_byte_is_lost_where_a_mapped_file_is_opened_to_be_written() {
    needs_mounts!();
    no_byte_of_either_is_lost(true);
}

#[test]
fn no_byte_is_lost_where_a_file_that_is_being_written_is_mapped() {
    needs_mounts!();
    no_byte_of_either_is_lost(false);
}

#[test]
fn a_map_to_be_read_sees_at_once_what_is_written_through_another_descriptor() {
    needs_mounts!();
    let stand = Stand::new(2);
    let m = stand.mount("m");
    std::fs::write(m.at("f"), vec![0; 4 * PAGE]).unwrap();
    let (writer, mapped) = (only_to_write(&m.at("f")), both(&m.at("f")));
    let map = Map::of(&mapped, 4 * PAGE);
    for round in 1..=100_u8 {
        let place = usize::from(round) * 131;
        writer.write_all_at(&[round; 7], place as u64).unwrap();
        assert!((place..place + 7).all(|place| map.byte(place).load(Ordering::Relaxed) == round), "round {round}");
    }
}

#[test]
fn what_was_written_is_read_and_mapped_by_who_opens_it_while_it_is_still_open() {
    needs_mounts!();
    let stand = Stand::new(2);
    let m = stand.mount("m");
    let writer = File::create(m.at("f")).unwrap();
    for round in 0..50_u64 {
        let text = format!("{round:>4095}\n");
        writer.write_all_at(text.as_bytes(), round * PAGE as u64).unwrap();
        let read = std::fs::read(m.at("f")).unwrap();
        assert_eq!((read.len(), &read[read.len() - PAGE..]), ((round as usize + 1) * PAGE, text.as_bytes()));
    }
    let map = Map::of(&both(&m.at("f")), 50 * PAGE);
    assert!((0..50).all(|page| map.byte(page * PAGE + PAGE - 1).load(Ordering::Relaxed) == b'\n'));
}
