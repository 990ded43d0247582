//! Rows damaged or missing one at a time: each causes an error that names the row and the remedy, for the affected objects only. The rows
//! are the namespace's, so one function tests both databases.

use super::model::{OWNER, map};
use crate::database::in_memory::InMemory;
use crate::database::{Database, DatabaseError, Table, Unwatched, read, write};
use crate::lineage::WitnessReports;
use crate::namespace::Namespace;
use std::sync::Arc;
use thalweg_wire::protocol::metadata::{Detail, Existing, FilePath, LayoutChoice};
use thalweg_wire::{Error, ErrorKind, Result};

fn open(database: &Arc<dyn Database>) -> Result<Namespace> {
    Namespace::open(Arc::clone(database), map(), OWNER, &WitnessReports::default())
}

fn rows(database: &dyn Database) -> Vec<(Table, Vec<u8>, Vec<u8>)> {
    read::<_, DatabaseError>(database, |view| {
        let mut all = Vec::new();
        for table in Table::ALL {
            view.scan(table, b"", None, &mut |key, value| {
                all.push((table, key.to_vec(), value.to_vec()));
                true
            })?;
        }
        Ok(all)
    })
    .unwrap()
}

fn set(database: &dyn Database, table: Table, key: &[u8], value: Option<&[u8]>) {
    write::<_, DatabaseError>(database, &mut Unwatched, |t| {
        match value {
            Some(value) => t.put(table, key, value.to_vec()),
            None => t.delete(table, key),
        }
        Ok(())
    })
    .unwrap();
}

/// Returns everything that a client can see: each path's attributes, and directory pages.
fn seen(namespace: &Namespace) -> Vec<Result<String>> {
    let paths = ["/", "/d", "/d/one", "/d/two"].map(FilePath::at);
    let stats = paths.iter().map(|path| namespace.stat(path).map(|found| format!("{found:?}")));
    let list = |path| namespace.list(path, None, u32::MAX, Detail::Attributes);
    let pages = paths[..2].iter().map(|path| list(path).map(|(entries, _)| format!("{entries:?}")));
    stats.chain(pages).collect()
}

fn check(what: &str, error: &Error, table: Table) {
    let said = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Io, "{what}: {said}");
    assert!(said.contains(&format!("table {}", table.name())) && said.lines().count() == 1, "{what}: {said}");
    assert!(said.contains("put back a copy of the whole database") || said.contains("use the release that wrote it"), "{what}: {said}");
}

pub(super) fn each_row_damaged(database: &Arc<dyn Database>) {
    let namespace = open(database).unwrap();
    let store = namespace.for_store();
    store.make_directory(&mut Unwatched, &FilePath::at("/d"), OWNER, false).unwrap();
    for path in ["/d/one", "/d/two"] {
        store.create(&mut Unwatched, &FilePath::at(path), OWNER, Existing::Refuse, &LayoutChoice::default(), "n").unwrap();
    }
    let whole = seen(&namespace);
    assert!(whole.iter().all(Result::is_ok), "{whole:?}");
    drop(namespace);
    let mut errors = 0;
    for (table, key, value) in rows(&**database) {
        let damaged = [None, Some(&value[..0]), Some(&value[..value.len() - 1]), Some(&value[..value.len() / 2]), Some(&[0xff; 6][..])];
        for damage in
            damaged.into_iter().filter(|damage| matches!(table, Table::State | Table::Inodes | Table::Entries) || damage.is_none())
        {
            let what = format!("{} {}, {damage:?}", table.name(), String::from_utf8_lossy(&key));
            let before = rows(&**database);
            set(&**database, table, &key, damage);
            match open(database) {
                Err(error) => {
                    check(&what, &error, table);
                    errors += 1;
                    assert_eq!(
                        rows(&**database).len(),
                        before.len() - usize::from(damage.is_none()),
                        "{what}: a start that is refused makes nothing"
                    );
                }
                Ok(namespace) => {
                    for (at, (now, was)) in seen(&namespace).iter().zip(&whole).enumerate() {
                        match now {
                            Ok(now) => assert!(
                                now == was.as_ref().unwrap() || table == Table::Entries && damage.is_none(),
                                "{what}: {at} is {now}"
                            ),
                            // A missing name is simply absent: nothing shows that it existed.
                            Err(error) if error.kind() == ErrorKind::NotFound => {
                                assert!(table == Table::Entries && damage.is_none(), "{what}: {error}")
                            }
                            Err(error) => {
                                check(&what, error, table);
                                errors += 1;
                            }
                        }
                    }
                }
            }
            set(&**database, table, &key, Some(&value));
        }
    }
    assert!(errors > 40, "{errors} errors");
    assert!(
        seen(&open(database).unwrap()).iter().zip(&whole).all(|(now, was)| now.as_ref().unwrap() == was.as_ref().unwrap()),
        "whole again"
    );
}

#[test]
fn a_damaged_or_missing_row_is_an_error_that_names_it() {
    let database: Arc<dyn Database> = Arc::new(InMemory::default());
    each_row_damaged(&database);
}
