use super::*;
use proptest::prelude::*;
use thalweg_metadata::database::Table;

const OF: Witnessed = Witnessed { start: ServiceStart { epoch: 3, start: 0xab }, change: 77 };

fn row(table: Table, key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut row = vec![table as u8];
    row.extend_from_slice(&(key.len() as u16).to_le_bytes());
    row.extend_from_slice(&(value.len() as u32).to_le_bytes());
    [&row, key, value].concat()
}

/// Parts with rows of several tables.
fn parts() -> Vec<Vec<u8>> {
    let entries: Vec<Vec<u8>> = (0..40_u32).map(|n| row(Table::Entries, &n.to_be_bytes(), &vec![n as u8; n as usize])).collect();
    vec![row(Table::State, b"namespace.store", &[1; 8]), entries[..25].concat(), entries[25..].concat(), row(Table::Lots, b"l", b"")]
}

fn write(path: &Path, parts: &[Vec<u8>]) -> Result<(u64, u64)> {
    let mut writer = Writer::create(path, &Header::of(9, OF, 1_000_000))?;
    parts.iter().try_for_each(|part| writer.part(part))?;
    writer.finish()
}

fn read(path: &Path) -> Result<(Header, Vec<Vec<u8>>)> {
    let mut backup = Backup::open(path)?;
    let mut parts = Vec::new();
    while let Some(part) = backup.part()? {
        parts.push(part);
    }
    Ok((backup.header, parts))
}

#[test]
fn what_is_written_is_read_and_no_file_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("b");
    let (rows, bytes) = write(&path, &parts()).unwrap();
    assert_eq!((rows, bytes), (42, std::fs::metadata(&path).unwrap().len()));
    let (header, read) = read(&path).unwrap();
    assert_eq!((header.store.as_str(), header.epoch, header.change, read), ("0000000000000009", 3, 77, parts()));
    let before = std::fs::read(&path).unwrap();
    assert_eq!(write(&path, &parts()).unwrap_err().kind(), ErrorKind::Exists);
    // A name that is taken while the backup is written.
    let late = directory.path().join("late");
    let writer = Writer::create(&late, &Header::of(9, OF, 0)).unwrap();
    assert_eq!(Writer::create(&late, &Header::of(9, OF, 0)).err().unwrap().kind(), ErrorKind::Busy);
    std::fs::write(&late, "mine").unwrap();
    assert_eq!(writer.finish().unwrap_err().kind(), ErrorKind::Exists);
    assert_eq!((std::fs::read(&path).unwrap(), std::fs::read(&late).unwrap()), (before, b"mine".to_vec()));
    let mut names: Vec<_> = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["b", "late"], "nothing else is left");
}

#[test]
fn what_a_killed_backup_left_is_no_backup_and_is_in_nobodys_way() {
    let directory = tempfile::tempdir().unwrap();
    let (path, partial) = (directory.path().join("b"), directory.path().join("b.partial"));
    std::fs::write(&partial, vec![7; 1 << 20]).unwrap();
    assert_eq!(Backup::verify(&partial).unwrap_err().kind(), ErrorKind::Corrupt);
    write(&path, &parts()).unwrap();
    assert!(!partial.exists() && Backup::verify(&path).unwrap() == 42);
}

#[test]
fn every_flipped_bit_every_cut_and_every_longer_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("b");
    write(&path, &parts()).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let damaged = directory.path().join("d");
    let refused = |bytes: &[u8], what: &str| {
        std::fs::write(&damaged, bytes).unwrap();
        let error = Backup::verify(&damaged).err().unwrap_or_else(|| panic!("{what} was accepted"));
        assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Version), "{what}: {error}");
    };
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        refused(&bytes, &format!("bit {} of byte {at}", at % 8));
        refused(&whole[..at], &format!("the first {at} bytes"));
    }
    refused(&[&whole[..], &[0]].concat(), "a longer file");
    refused(&whole.repeat(2), "a file twice");
}

#[test]
fn blocks_that_are_left_out_exchanged_or_of_another_backup_are_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let parts = parts();
    write(&at("one"), &parts).unwrap();
    let mut writer = Writer::create(&at("two"), &Header::of(9, OF, 1_000_001)).unwrap();
    parts.iter().for_each(|part| writer.part(part).unwrap());
    writer.finish().unwrap();
    let [one, two] = ["one", "two"].map(|name| std::fs::read(at(name)).unwrap());
    let header = one.len() - parts.iter().map(|part| 8 + part.len()).sum::<usize>() - 20;
    let mut starts = vec![header];
    parts.iter().for_each(|part| starts.push(starts.last().unwrap() + 8 + part.len()));
    let block = |bytes: &[u8], n: usize| bytes[starts[n]..starts[n + 1]].to_vec();
    let rest = |bytes: &[u8], n: usize| bytes[starts[n]..].to_vec();
    let cases = [
        ("one left out", [one[..starts[1]].to_vec(), rest(&one, 2)].concat()),
        ("all left out", [one[..starts[0]].to_vec(), rest(&one, 4)].concat()),
        ("exchanged", [one[..starts[1]].to_vec(), block(&one, 2), block(&one, 1), rest(&one, 3)].concat()),
        ("twice", [one[..starts[2]].to_vec(), block(&one, 1), rest(&one, 2)].concat()),
        ("of another", [one[..starts[1]].to_vec(), block(&two, 1), rest(&one, 2)].concat()),
        ("the end of another", [one[..starts[4]].to_vec(), rest(&two, 4)].concat()),
    ];
    for (what, bytes) in cases {
        std::fs::write(at("d"), bytes).unwrap();
        assert_eq!(Backup::verify(&at("d")).err().map(|e| e.kind()), Some(ErrorKind::Corrupt), "{what}");
    }
}

#[test]
fn a_newer_format_is_refused_with_the_release_that_made_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("b");
    let text = "made_by = \"thalweg 9.0.0\"\nsomething = \"new\"\n";
    let mut bytes = [&MAGIC[..], &2_u32.to_le_bytes(), &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
    let crc = crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    std::fs::write(&path, &bytes).unwrap();
    let error = Backup::verify(&path).unwrap_err();
    assert!(error.kind() == ErrorKind::Version && error.message().contains("thalweg 9.0.0"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Rows that are not in order are never written, and any change of any file is an error or the same rows.
    #[test]
    fn whatever_is_done_to_a_backup_it_is_refused_or_the_same(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
        more in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("b");
        write(&path, &parts()).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        for (at, with) in &changes {
            let at = at.index(bytes.len());
            bytes[at] = *with;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        bytes.extend_from_slice(&more);
        std::fs::write(&path, &bytes).unwrap();
        match read(&path) {
            Ok((_, found)) => prop_assert!(bytes == whole && found == parts()),
            Err(error) => prop_assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Version)),
        }
    }
}
