//! A table outside a recording: one Parquet file with a column for each name, encoded like the tables of recordings,
//! so that pandas, Polars and DuckDB read it. Any value may be absent.

use super::leaf::{self, Leaf};
use super::parquet_file::{PartWriter, properties};
use crate::TraceError;
use std::fmt::Write;
use std::path::Path;

/// A column's values, row by row.
#[derive(Clone, Debug, PartialEq)]
pub enum TableColumn {
    /// Measures: seconds, shares, rates.
    Numbers(Vec<Option<f64>>),
    /// Counts, sizes.
    Counts(Vec<Option<u64>>),
    /// Names.
    Texts(Vec<Option<String>>),
}

impl TableColumn {
    fn rows(&self) -> usize {
        match self {
            TableColumn::Numbers(rows) => rows.len(),
            TableColumn::Counts(rows) => rows.len(),
            TableColumn::Texts(rows) => rows.len(),
        }
    }

    /// Returns its type in Parquet's schema language.
    fn schema(&self, name: &str) -> String {
        match self {
            TableColumn::Numbers(_) => format!("optional double {name};"),
            TableColumn::Counts(_) => format!("optional int64 {name};"),
            TableColumn::Texts(_) => format!("optional binary {name} (string);"),
        }
    }

    fn leaf(&self) -> Leaf {
        match self {
            TableColumn::Numbers(rows) => leaf::optional(rows.iter().copied()),
            // Like the file's other count columns, limited to 2⁶³ − 1.
            TableColumn::Counts(rows) => leaf::optional(rows.iter().map(|row| row.map(leaf::signed))),
            TableColumn::Texts(rows) => leaf::optional_texts(rows.iter().map(Option::as_deref)),
        }
    }
}

/// Writes a table from named columns of equal length; an existing file is replaced once the new one is complete.
///
/// # Errors
/// The file cannot be written; a column name has characters other than letters, digits and `_`; columns differ in
/// length.
pub fn write_table(path: &Path, columns: &[(String, TableColumn)]) -> Result<(), TraceError> {
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if let Some((name, _)) = columns.iter().find(|(name, _)| !is_name(name)) {
        return Err(TraceError::new(path, format!("`{name}` is not a column name: expected letters, digits and _")));
    }
    let rows = columns.first().map_or(0, |(_, column)| column.rows());
    if let Some((name, column)) = columns.iter().find(|(_, column)| column.rows() != rows) {
        return Err(TraceError::new(path, format!("the column {name} has {} rows, the first column {rows}", column.rows())));
    }
    let mut schema = "message table {\n".to_owned();
    for (name, column) in columns {
        let _ = writeln!(schema, "  {}", column.schema(name));
    }
    schema.push_str("}\n");
    let beside = path.with_extension("parquet.new");
    let mut file = PartWriter::create(&beside, &schema, properties().build())?;
    if rows > 0 {
        file.write(&columns.iter().map(|(_, column)| column.leaf()).collect::<Vec<_>>())?;
    }
    file.finish()?;
    std::fs::rename(&beside, path).map_err(|e| TraceError::new(path, format!("cannot be replaced: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    #[test]
    fn numbers_counts_and_texts_are_read_back_and_what_is_absent_is_null() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.parquet");
        let columns = [
            ("rate".to_owned(), TableColumn::Numbers(vec![Some(0.25), None, Some(-1e300)])),
            ("bytes".to_owned(), TableColumn::Counts(vec![None, Some(7), Some(u64::MAX)])),
            ("state".to_owned(), TableColumn::Texts(vec![Some("done".into()), Some("a\n\"b\" €".into()), None])),
        ];
        write_table(&path, &columns).unwrap();
        let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        let numbers: Vec<Option<f64>> = rows.iter().map(|row| row.get_double(0).ok()).collect();
        let counts: Vec<Option<i64>> = rows.iter().map(|row| row.get_long(1).ok()).collect();
        let texts: Vec<Option<String>> = rows.iter().map(|row| row.get_string(2).ok().cloned()).collect();
        assert_eq!(numbers, [Some(0.25), None, Some(-1e300)]);
        assert_eq!(counts, [None, Some(7), Some(i64::MAX)]);
        assert_eq!(texts, [Some("done".to_owned()), Some("a\n\"b\" €".to_owned()), None]);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_table_without_rows_has_its_columns_and_what_is_no_table_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("t.parquet");
        write_table(&path, &[("a".to_owned(), TableColumn::Counts(Vec::new()))]).unwrap();
        let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        assert_eq!((reader.metadata().file_metadata().num_rows(), reader.metadata().file_metadata().schema().get_fields().len()), (0, 1));
        let refused = |columns: &[(String, TableColumn)]| write_table(&path, columns).unwrap_err().to_string();
        assert!(refused(&[("a b".to_owned(), TableColumn::Counts(Vec::new()))]).contains("`a b` is not a column name"));
        let uneven = [("a".to_owned(), TableColumn::Counts(vec![None])), ("b".to_owned(), TableColumn::Counts(Vec::new()))];
        assert!(refused(&uneven).contains("the column b has 0 rows"));
    }
}
