//! The namespace against the in-memory tree, with its rows in PostgreSQL.

use super::damage::each_row_damaged;
use super::model::{operation, play};
use crate::database::Database;
use crate::database::postgresql::CACHE_BYTES;
use crate::database::tests::postgresql::{self, Server};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Uses a separate database for each case, since each starts empty.
fn in_postgresql(cases: u32, cache_bytes: usize) {
    let Some(server) = Server::start() else { return };
    let mut runner = TestRunner::new(ProptestConfig { cases, ..ProptestConfig::default() });
    let number = AtomicU64::new(0);
    let played = runner.run(&prop::collection::vec(operation(), 1..80), |operations| {
        let name = format!("case{}", number.fetch_add(1, Ordering::Relaxed));
        server.create(&name);
        play(&operations, |old| {
            drop(old);
            Arc::new(postgresql::open(&server, &name, cache_bytes).unwrap())
        });
        server.sql("postgres", &format!("DROP DATABASE {name} WITH (FORCE)"));
        Ok(())
    });
    played.unwrap_or_else(|failed| panic!("{failed}"));
}

#[test]
fn the_namespace_is_the_same_in_postgresql_after_every_kill() {
    in_postgresql(8, CACHE_BYTES);
}

#[test]
fn the_namespace_is_the_same_in_postgresql_when_nothing_is_kept_here() {
    in_postgresql(3, 0);
}

#[test]
fn a_damaged_or_missing_row_in_postgresql_is_an_error_that_names_it() {
    let Some(server) = Server::start() else { return };
    for cache_bytes in [0, CACHE_BYTES] {
        let name = format!("cached{cache_bytes}");
        server.create(&name);
        let database: Arc<dyn Database> = Arc::new(postgresql::open(&server, &name, cache_bytes).unwrap());
        each_row_damaged(&database);
    }
}
