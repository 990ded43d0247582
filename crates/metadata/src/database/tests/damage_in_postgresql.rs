//! Starts on a PostgreSQL database with damaged or missing parts: they restore everything acknowledged, or fail with one sentence that
//! names the problem and the remedy. Then nothing was changed, so that the database works again once it is restored.

use super::postgresql::{Server, open, refusal, settings};
use super::*;

/// Creates a database with 10 transactions of the history in its tables and 20 more in its log.
fn killed_after_thirty_in(server: &Server, name: &str) {
    server.create(name);
    let database = open(server, name, 0).unwrap();
    (0..10).for_each(|i| history(&database, i));
    database.checkpoint().unwrap();
    drop(database);
    // (Its log is never long enough for a checkpoint.)
    let long = super::postgresql::Settings { segment_bytes: 1 << 30, ..settings(0) };
    let database = super::postgresql::open_with(server, name, &long).unwrap();
    (10..30).for_each(|i| history(&database, i));
}

/// Each kind of damage, and parts of the error.
const DAMAGE: [(&str, &[&str]); 15] = [
    // A change of the log is cut short, emptied, or replaced.
    (
        "UPDATE thalweg.log SET records = substring(records FROM 1 FOR octet_length(records) - 3) WHERE number = NTH",
        &["`log`", "change NTH cannot be read"],
    ),
    ("UPDATE thalweg.log SET records = substring(records FROM 1 FOR 9) WHERE number = NTH", &["`log`", "change NTH cannot be read"]),
    ("UPDATE thalweg.log SET records = '' WHERE number = NTH", &["`log`", "change NTH has no records"]),
    (
        "UPDATE thalweg.log SET records = set_byte(records, 20, 255 - get_byte(records, 20)) WHERE number = NTH",
        &["`log`", "change NTH cannot be read"],
    ),
    ("UPDATE thalweg.log SET records = '\\x00112233445566778899aabbccddeeff' WHERE number = NTH", &["`log`", "change NTH cannot be read"]),
    (
        "UPDATE thalweg.log SET records = (SELECT records FROM thalweg.log WHERE number = NTH - 1) WHERE number = NTH",
        &["`log`", "change NTH cannot be read"],
    ),
    // One change is missing, or all.
    ("DELETE FROM thalweg.log WHERE number = NTH", &["`log`", "change NTH is missing"]),
    ("TRUNCATE thalweg.log", &["`log`", "the change that began epoch 2 is missing"]),
    // Other parts: tables, single-row tables, the function.
    ("DROP TABLE thalweg.log", &["\"thalweg.log\" does not exist"]),
    ("DROP TABLE thalweg.entries", &["`entries` is gone"]),
    ("DELETE FROM thalweg.owner", &["`owner` is empty"]),
    ("DELETE FROM thalweg.lease", &["`lease` is empty"]),
    ("UPDATE thalweg.lease SET epoch = 1", &["`lease` has the epoch 1", "`owner` 2"]),
    ("DROP FUNCTION thalweg.apply", &["function `apply` is gone"]),
    ("ALTER TABLE thalweg.owner DROP COLUMN change", &["schema thalweg is not whole", "change"]),
];

#[test]
fn a_damaged_database_in_postgresql_is_refused_in_one_sentence_and_left_as_it_was() {
    let Some(server) = Server::start() else { return };
    killed_after_thirty_in(&server, "whole");
    let middle: i64 = server.sql("whole", "SELECT max(number) - 7 FROM thalweg.log").parse().unwrap();
    for (damage, words) in DAMAGE {
        server.sql("postgres", "CREATE DATABASE damaged TEMPLATE whole");
        let damage = damage.replace("NTH", &middle.to_string());
        server.sql("damaged", &damage);
        for again in 0..2 {
            let said = refusal(&server.address("damaged"), &settings(0));
            for word in words {
                assert!(said.contains(&word.replace("NTH", &middle.to_string())), "{damage}, start {again}: {said}");
            }
            assert!(said.contains("put back a copy of the whole database"), "{damage}: {said}");
        }
        server.sql("postgres", "DROP DATABASE damaged WITH (FORCE)");
    }
    // Without damage it is complete.
    assert_eq!(prefix_length(&open(&server, "whole", 0).unwrap()), 30);
}

#[test]
fn a_file_of_a_table_that_the_disk_damaged_is_an_error_that_says_so() {
    let Some(mut server) = Server::start() else { return };
    killed_after_thirty_in(&server, "entries");
    let database = open(&server, "entries", 0).unwrap();
    database.checkpoint().unwrap();
    drop(database);
    let file = server.sql("entries", "CHECKPOINT; SELECT pg_relation_filepath('thalweg.entries')");
    server.kill();
    let path = server.socket().join("data").join(file.lines().last().unwrap());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[..200].fill(0x5a);
    std::fs::write(&path, bytes).unwrap();
    server.begin();
    let database = open(&server, "entries", 0).unwrap();
    let scan = read::<_, DatabaseError>(&database, |view| view.scan(Table::Entries, b"", None, &mut |_, _| true));
    let said = scan.unwrap_err().to_string();
    assert!(said.contains("invalid page") && said.contains("its files are damaged: put back a copy"), "{said}");
}
