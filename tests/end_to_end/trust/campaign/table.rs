//! Parses the table of `docs/TRUST.md`.

use std::path::Path;

const HEADING: &str = "## What each credential may do";
const COLUMNS: &str =
    "| | the store's own credential | an owner's | a read-only one | no credential, as another user of the machine | test |";

/// A row: the action, and a cell for each kind of credential.
pub(super) struct TableRow {
    pub name: String,
    pub cells: Vec<String>,
}

pub(super) struct Table {
    pub rows: Vec<TableRow>,
}

impl Table {
    pub(super) fn read() -> Table {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/TRUST.md");
        let text = std::fs::read_to_string(page).expect("docs/TRUST.md is there");
        let (_, section) = text.split_once(HEADING).expect("the section on what each credential may do");
        let mut lines = section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
        assert_eq!(lines.next(), Some(COLUMNS), "the columns are those that the probes know");
        let rows: Vec<TableRow> = lines.skip(1).map(row).collect();
        Table { rows }
    }
}

fn row(line: &str) -> TableRow {
    let cells: Vec<String> = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    let [name, cells @ .., test] = &cells[..] else { panic!("{line}") };
    assert!(cells.len() == 4 && !test.is_empty(), "four kinds of credential, and a test: {line}");
    TableRow { name: name.clone(), cells: cells.to_vec() }
}
