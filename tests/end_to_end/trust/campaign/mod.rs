//! The security campaign in its short form: the permissions of each credential in `docs/TRUST.md` are checked against a running store, cell
//! by cell, and servers get hostile messages.
//!
//! Each row of the table has a probe of its name, with the attempts, and the outcome of each attempt for each wording of a cell. A row
//! without a probe, a probe without a row, or an unknown wording is a failure: the table claims nothing that is not tried.

mod asking;
mod messages;
#[path = "../../../../fuzz/src/mutate.rs"]
mod mutate;
mod rows;
mod sending;
mod state;
mod table;

use asking::{Asker, Who, World};
use rows::{ROWS, Row};
use table::Table;

#[test]
fn each_cell_of_the_table_of_credentials_is_what_a_store_does() {
    let table = Table::read();
    let named: Vec<&str> = table.rows.iter().map(|row| row.name.as_str()).collect();
    let probed: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
    assert_eq!(named, probed, "each row has a probe of its name, and each probe a row");
    let world = World::new();
    let mut wrong = Vec::new();
    for (row, cells) in ROWS.iter().zip(&table.rows) {
        for who in Who::ALL {
            let cell = &cells.cells[who.column()];
            wrong.extend(held(&world, row, cell, who).map(|found| format!("{}, {who:?}: {found}", row.name)));
        }
    }
    assert!(wrong.is_empty(), "docs/TRUST.md says otherwise:\n{}", wrong.join("\n"));
}

/// Compares a cell with the outcomes of the row's attempts; returns the deviation.
fn held(world: &World, row: &Row, cell: &str, who: Who) -> Option<String> {
    let Some(says) = (row.says)(cell, who) else { return Some(format!("no probe knows the wording `{cell}`")) };
    let found = (row.attempt)(world, &mut Asker::new(world, who));
    let is_so = found.iter().map(|(_, outcome)| outcome).eq(&says);
    (!is_so).then(|| format!("`{cell}` says {says:?}, and it was {found:?}"))
}
