//! The security campaign in its short form: what `docs/TRUST.md` says that each credential may do is held against a store that runs, cell by
//! cell, and servers are sent what nobody should send.
//!
//! A row of the table has a probe here, under its name: what it attempts, and what each wording of a cell says of each attempt. A row without a
//! probe is a failure, and so is a probe without a row, or a wording that no probe knows: the table says nothing that is not tried.

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

/// Whether a cell is what comes of the row's attempts; if not, what does.
fn held(world: &World, row: &Row, cell: &str, who: Who) -> Option<String> {
    let Some(says) = (row.says)(cell, who) else { return Some(format!("no probe knows the wording `{cell}`")) };
    let found = (row.attempt)(world, &mut Asker::new(world, who));
    let is_so = found.iter().map(|(_, outcome)| outcome).eq(&says);
    (!is_so).then(|| format!("`{cell}` says {says:?}, and it was {found:?}"))
}
