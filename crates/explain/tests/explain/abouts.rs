//! What a run was about, as the first line of its summary says it.

use std::path::Path;
use thalweg_explain::{Options, explain};
use thalweg_trace::Recording;

fn about(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let recording = Recording::open(&path).expect("a fixture opens");
    explain(&recording, &Options { what_if: false, ..Options::default() }).expect("explains").summary.about
}

#[test]
fn syncs_are_counted_by_call_and_not_by_wait() {
    let begins = |name: &str, with: &str| assert!(about(name).starts_with(with), "{name}: {}", about(name));
    begins("programs/dd-dsync", "200 syncs in ");
    // 100 transactions, one that made the log, and one that ended it.
    begins("programs/sqlite-wal", "102 log syncs in ");
}

#[test]
fn answers_of_few_bytes_are_requests_and_a_walk_of_our_own_is_entries() {
    let begins = |name: &str, with: &str| assert!(about(name).starts_with(with), "{name}: {}", about(name));
    begins("walks/nfs", "618 requests in ");
    begins("walks/store-sync", "300 entries in ");
    begins("programs/rsync-get-server-disk", "95.5 MiB in ");
}
