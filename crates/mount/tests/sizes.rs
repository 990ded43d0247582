//! Writers known to the service: it can prove the sizes of files that nobody writes, and of no others.

mod stand;

use stand::bounded::{BoundedChild, LIMIT, Lines};
use stand::{Mounted, Stand, wait_until};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use thalweg_client::metadata::MetadataClient;
use thalweg_client::wire::Connect;
use thalweg_client::wire::protocol::metadata::FilePath;
use thalweg_trace::Tracer;

struct ServiceView(MetadataClient);

impl ServiceView {
    fn of(stand: &Stand) -> ServiceView {
        ServiceView(MetadataClient::connect(&mut Tracer::off(), &stand.address, &Connect::default()).unwrap())
    }

    fn size(&self, name: &str) -> Option<u64> {
        let found = self.0.stat_many(&mut Tracer::off(), &[FilePath::at(name)], true).unwrap().remove(0);
        found.unwrap().size_bytes
    }

    fn will_be(&self, name: &str, size: u64) {
        wait_until(&format!("{name} is known to have {size} bytes"), || match self.size(name) {
            None => false,
            Some(found) => {
                assert_eq!(found, size, "{name}");
                true
            }
        });
    }
}

fn each(change: impl Fn(&Mounted, &ServiceView)) {
    let stand = Stand::new(2);
    for strict in [false, true] {
        let m = if strict { stand.mount_strictly("strict") } else { stand.mount("m") };
        change(&m, &ServiceView::of(&stand));
        fs::read_dir(m.path()).unwrap().for_each(|entry| fs::remove_file(entry.unwrap().path()).unwrap());
    }
}

#[test]
fn a_file_that_was_closed_is_known_and_one_that_is_open_for_writing_is_not() {
    needs_mounts!();
    each(|m, seen| {
        fs::write(m.at("f"), [1; 300_000]).unwrap();
        seen.will_be("f", 300_000);
        // Reading changes nothing.
        let reader = File::open(m.at("f")).unwrap();
        assert_eq!(fs::read(m.at("f")).unwrap().len(), 300_000);
        seen.will_be("f", 300_000);
        // The second program to open it writes.
        let mut writer = File::options().append(true).open(m.at("f")).unwrap();
        assert_eq!(seen.size("f"), None);
        writer.write_all(&[2; 10]).unwrap();
        assert_eq!(seen.size("f"), None);
        drop((reader, writer));
        seen.will_be("f", 300_010);
        // Opened for writing, and not written.
        drop(File::options().write(true).open(m.at("f")).unwrap());
        seen.will_be("f", 300_010);
        // Truncated and rewritten with fewer bytes.
        fs::write(m.at("f"), [3; 7]).unwrap();
        seen.will_be("f", 7);
    });
}

#[test]
fn sizes_are_known_after_truncations_allocations_and_maps() {
    needs_mounts!();
    each(|m, seen| {
        let file = File::create(m.at("f")).unwrap();
        file.write_all_at(b"some", 100_000).unwrap();
        file.set_len(50_000).unwrap();
        assert_eq!(seen.size("f"), None);
        drop(file);
        seen.will_be("f", 50_000);
        File::options().write(true).open(m.at("f")).unwrap().set_len(123).unwrap();
        seen.will_be("f", 123);
        let file = File::options().write(true).open(m.at("f")).unwrap();
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::KEEP_SIZE, 0, 500_000).unwrap();
        drop(file);
        seen.will_be("f", 123);
        let file = File::options().write(true).open(m.at("f")).unwrap();
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 200_000).unwrap();
        drop(file);
        seen.will_be("f", 200_000);
        // Through another name, and under a file that is replaced.
        fs::hard_link(m.at("f"), m.at("g")).unwrap();
        File::options().append(true).open(m.at("g")).unwrap().write_all(b"1").unwrap();
        seen.will_be("f", 200_001);
        let held = File::options().append(true).open(m.at("g")).unwrap();
        fs::write(m.at("h"), b"12345").unwrap();
        fs::rename(m.at("h"), m.at("g")).unwrap();
        seen.will_be("g", 5);
        drop(held);
        seen.will_be("f", 200_001);
    });
}

#[test]
fn what_a_map_writes_after_its_descriptor_was_closed_counts() {
    needs_mounts!();
    let stand = Stand::new(2);
    let m = stand.mount("m");
    let seen = ServiceView::of(&stand);
    // In a separate process: an unmapping process waits for the mount.
    let program = "import mmap,os,sys\nf=os.open(sys.argv[1],os.O_RDWR|os.O_CREAT)\nos.ftruncate(f,8192)\nm=mmap.mmap(f,8192)\n\
        os.close(f)\nprint('mapped',flush=True)\nsys.stdin.readline()\nm[5000]=7\nm.close()\n";
    let python = Command::new("python3").args(["-c", program]).arg(m.at("f")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut python) = python else {
        println!("SKIPPED: no python3 to map a file");
        return;
    };
    assert_eq!(Lines::new(python.stdout.take().unwrap()).next(LIMIT).as_deref(), Ok("mapped"));
    assert_eq!(seen.size("f"), None, "the map may still write");
    drop(python.stdin.take());
    assert!(python.wait_in_time(LIMIT).unwrap().success());
    seen.will_be("f", 8192);
    assert_eq!(fs::read(m.at("f")).unwrap()[5000], 7);
}
