//! Checksums at rest under every way in which programs use a mount: direct I/O, mapped pages, `copy_file_range`.

use super::damaged::{datafiles, flip};
use crate::common::{Mounted, Up, can_mount, content, file, run, scratch, text, wait_until};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

const BLOCK: usize = 4096;

/// Reads one block with direct I/O.
fn read_direct(path: &std::path::Path, block: usize) -> std::io::Result<Vec<u8>> {
    let file = File::options().read(true).custom_flags(libc::O_DIRECT).open(path)?;
    // Direct I/O wants aligned memory.
    let mut memory = vec![0_u8; 2 * BLOCK];
    let skip = memory.as_ptr().align_offset(BLOCK);
    let have = file.read_at(&mut memory[skip..skip + BLOCK], (block * BLOCK) as u64)?;
    Ok(memory[skip..skip + have].to_vec())
}

/// Copies with `copy_file_range` alone.
fn copy_range(from: &File, to: &File, length: usize) -> std::io::Result<()> {
    let mut done = 0;
    while done < length {
        let (mut at_from, mut at_to) = (done as i64, done as i64);
        // SAFETY: both descriptors are open, and the offsets are this function's.
        let copied = unsafe { libc::copy_file_range(from.as_raw_fd(), &mut at_from, to.as_raw_fd(), &mut at_to, length - done, 0) };
        match copied {
            0 => return Err(std::io::Error::other("the source ended")),
            n if n < 0 => return Err(std::io::Error::last_os_error()),
            n => done += n as usize,
        }
    }
    Ok(())
}

/// Changes bytes through a shared mapping, and syncs them.
fn write_mapped(file: &File, bytes: &[u8], offset: usize, size: usize) {
    // SAFETY: the file has `size` bytes, nobody truncates it, and the mapping ends in this function.
    unsafe {
        let map = libc::mmap(std::ptr::null_mut(), size, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(map, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), map.cast::<u8>().add(offset), bytes.len());
        assert_eq!(libc::msync(map, size, libc::MS_SYNC), 0, "{}", std::io::Error::last_os_error());
        assert_eq!(libc::munmap(map, size), 0);
    }
}

#[test]
fn checksums_follow_direct_io_mapped_pages_and_copies_of_ranges_and_damage_is_eio_in_each() {
    if !can_mount() {
        return;
    }
    let here = scratch();
    let store = Up::start(2);
    let mut bytes = content(11, 100 * BLOCK);
    let source = file(here.path(), "source", &bytes);
    run(["cp", "--layout", "simple_stripe,strip_size=64Ki", text(&source), &store.path("/f")]).done();
    let scrub = || run(["scrub", "--quiet", "--no-limit", "--store", &store.address]);
    let mounted = Mounted::new(&store, &here.path().join("mnt"), &[]);
    let path = mounted.at("f");
    // Writes of each kind, some of part of a block.
    let opened = File::options().read(true).write(true).open(&path).unwrap();
    write_mapped(&opened, b"mapped", 5 * BLOCK - 3, bytes.len());
    bytes[5 * BLOCK - 3..][..6].copy_from_slice(b"mapped");
    let direct = File::options().write(true).custom_flags(libc::O_DIRECT).open(&path).unwrap();
    let mut memory = vec![0_u8; 2 * BLOCK];
    let skip = memory.as_ptr().align_offset(BLOCK);
    memory[skip..skip + BLOCK].fill(7);
    direct.write_all_at(&memory[skip..skip + BLOCK], (40 * BLOCK) as u64).unwrap();
    bytes[40 * BLOCK..41 * BLOCK].fill(7);
    drop(direct);
    opened.sync_all().unwrap();
    let copy = File::create_new(mounted.at("copy")).unwrap();
    copy_range(&opened, &copy, bytes.len()).unwrap();
    copy.sync_all().unwrap();
    drop((opened, copy));
    mounted.umount().done();
    scrub().done();
    for name in ["/f", "/copy"] {
        let back = here.path().join("back");
        run(["cp", "--force", &store.path(name), text(&back)]).done();
        assert!(std::fs::read(&back).unwrap() == bytes, "{name}");
    }
    // Damage, met in each way.
    run(["rm", &store.path("/copy")]).done();
    wait_until("the copy's datafiles are removed", || datafiles(store.directory.path()).len() == 2);
    let datafile = datafiles(store.directory.path()).remove(0);
    flip(&datafile, 8 * BLOCK as u64 + 1);
    let found = run(["scrub", "--quiet", "--json", "--store", &store.address]).failed(3, &[]).json();
    let block = found["findings"][0]["ranges_in_file"][0][0].as_u64().unwrap() as usize / BLOCK;
    let mounted = Mounted::new(&store, &here.path().join("again"), &[]);
    let path = mounted.at("f");
    let is_eio = |error: std::io::Error| assert_eq!(error.raw_os_error(), Some(libc::EIO), "{error}");
    is_eio(read_direct(&path, block).map(|bytes| bytes.len()).unwrap_err());
    let other = (block + 50) % 100;
    assert!(read_direct(&path, other).unwrap() == bytes[other * BLOCK..][..BLOCK]);
    let (from, to) = (File::open(&path).unwrap(), File::create_new(mounted.at("copy")).unwrap());
    is_eio(copy_range(&from, &to, bytes.len()).unwrap_err());
    drop((from, to));
    mounted.umount().done();
}
