//! The result as a flat table for pandas, Polars and DuckDB, with a row for each counted run. A point without such runs has one row.
//! Attributes of a point (its cause, its shares) are repeated in each of its rows.

use super::document::Document;
use super::point::{PointResult, RunResult};
use crate::{Error, Result};
use std::path::Path;
use thalweg_trace::{TableColumn, write_table};

type Row<'a> = (&'a PointResult, Option<&'a RunResult>);

impl Document {
    /// Writes the table as one Parquet file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_table(&self, path: &Path) -> Result<()> {
        write_table(path, &self.columns()).map_err(|error| Error::Choice(error.to_string()))
    }

    fn columns(&self) -> Vec<(String, TableColumn)> {
        let bare = |point: &PointResult| point.runs.is_empty();
        let rows: Vec<Row<'_>> = self
            .points
            .iter()
            .flat_map(|point| point.runs.iter().map(move |run| (point, Some(run))).chain(bare(point).then_some((point, None))))
            .collect();
        let mut columns = self.parameter_columns(&rows);
        columns.extend(point_columns(&rows));
        columns.extend(run_columns(&rows));
        columns.extend(share_columns(self, &rows));
        columns
    }

    /// Returns the parameters' columns, as numbers if all values are numbers.
    fn parameter_columns(&self, rows: &[Row<'_>]) -> Vec<(String, TableColumn)> {
        let mut columns: Vec<(String, TableColumn)> = Vec::new();
        for (n, parameter) in self.parameters.iter().enumerate() {
            let value = |(point, _): &Row<'_>| parameter.values.iter().find(|value| value.label == point.values[n]);
            let column = match parameter.values.iter().all(|value| value.number.is_some()) {
                true => TableColumn::Numbers(rows.iter().map(|row| value(row)?.number).collect()),
                false => TableColumn::Texts(rows.iter().map(|(point, _)| Some(point.values[n].clone())).collect()),
            };
            let mut name = format!("vary_{}", plain(&parameter.name));
            while columns.iter().any(|(known, _)| *known == name) {
                name.push('_');
            }
            columns.push((name, column));
        }
        columns
    }
}

/// Replaces all characters of a name except letters and digits by `_`.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

fn point_columns(rows: &[Row<'_>]) -> Vec<(String, TableColumn)> {
    let texts = |of: &dyn Fn(&PointResult) -> Option<String>| TableColumn::Texts(rows.iter().map(|(point, _)| of(point)).collect());
    let numbers = |of: &dyn Fn(&PointResult) -> Option<f64>| TableColumn::Numbers(rows.iter().map(|(point, _)| of(point)).collect());
    let columns = [
        ("state", texts(&|point| Some(point.state.name().replace(' ', "_")))),
        ("problem", texts(&|point| point.problem.clone())),
        ("cause", texts(&|point| Some(point.explanation.as_ref()?.cause.clone()))),
        ("cause_where", texts(&|point| Some(point.explanation.as_ref()?.place.clone()))),
        ("cause_sentence", texts(&|point| Some(point.explanation.as_ref()?.sentence.clone()))),
        ("ceiling_bytes_per_s", numbers(&|point| Some(point.ceiling_bytes_per_s?.median))),
    ];
    columns.map(|(name, column)| (name.to_owned(), column)).into()
}

fn run_columns(rows: &[Row<'_>]) -> Vec<(String, TableColumn)> {
    let counts = |of: &dyn Fn(&RunResult) -> Option<u64>| TableColumn::Counts(rows.iter().map(|(_, run)| of((*run)?)).collect());
    let numbers = |of: &dyn Fn(&RunResult) -> Option<f64>| TableColumn::Numbers(rows.iter().map(|(_, run)| of((*run)?)).collect());
    let per_byte = |run: &RunResult, seconds: f64| Some(seconds * 1e9 / run.bytes.filter(|bytes| *bytes > 0)? as f64);
    let columns = [
        ("repeat", counts(&|run| Some(run.repeat as u64))),
        ("wall_s", numbers(&|run| Some(run.wall_s))),
        ("bytes", counts(&|run| run.bytes)),
        ("rate_bytes_per_s", numbers(&RunResult::rate)),
        ("client_user_s", numbers(&|run| Some(run.user_s))),
        ("client_system_s", numbers(&|run| Some(run.system_s))),
        ("client_cpu_s", numbers(&|run| Some(run.user_s + run.system_s))),
        ("server_cpu_s", numbers(&|run| run.server_cpu_s)),
        ("client_cpu_ns_per_byte", numbers(&|run| per_byte(run, run.user_s + run.system_s))),
        ("server_cpu_ns_per_byte", numbers(&|run| per_byte(run, run.server_cpu_s?))),
    ];
    columns.map(|(name, column)| (name.to_owned(), column)).into()
}

/// Returns a column for each cause and each class that any point has; 0 for a recorded point without it.
fn share_columns(document: &Document, rows: &[Row<'_>]) -> Vec<(String, TableColumn)> {
    let mut causes: Vec<&str> =
        document.points.iter().flat_map(|p| &p.explanation).flat_map(|e| &e.shares).map(|(cause, _)| cause.as_str()).collect();
    let mut classes: Vec<&str> =
        document.points.iter().flat_map(|p| &p.profile).flat_map(|p| &p.shares).map(|share| share.class.as_str()).collect();
    [&mut causes, &mut classes].into_iter().for_each(|names| {
        names.sort_unstable();
        names.dedup();
    });
    let of_cause = |cause: &str| {
        let share = |(point, _): &Row<'_>| {
            let shares = &point.explanation.as_ref()?.shares;
            Some(shares.iter().find(|(name, _)| name == cause).map_or(0.0, |(_, share)| *share))
        };
        (format!("share_{}", plain(cause)), TableColumn::Numbers(rows.iter().map(share).collect()))
    };
    let of_class = |class: &str| {
        let share = |(point, _): &Row<'_>| {
            let shares = &point.profile.as_ref().filter(|profile| !profile.shares.is_empty())?.shares;
            Some(shares.iter().find(|known| known.class == class).map_or(0.0, |known| known.share))
        };
        (format!("class_{}", plain(class)), TableColumn::Numbers(rows.iter().map(share).collect()))
    };
    causes.into_iter().map(of_cause).chain(classes.into_iter().map(of_class)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::findings::tests::{around, made_up};
    use super::super::sample::{ClassShare, Classes};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::{Field, Row};

    fn field<'a>(row: &'a Row, name: &str) -> &'a Field {
        row.get_column_iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no column {name}")).1
    }

    #[test]
    fn each_run_is_a_row_with_its_point_and_a_point_without_runs_has_one_too() {
        let mut document = made_up(&["block-size=1,64Ki", "mode=x,y"], |values| {
            let fails = values[0] == "1" && values[1] == "y";
            (if fails { Vec::new() } else { around(2.0) }, if values[1] == "x" { "client.read" } else { "server.cpu" })
        });
        for run in &mut document.points[0].runs {
            (run.bytes, run.server_cpu_s) = (Some(1000), Some(0.5));
        }
        let share = ClassShare { class: "copy".into(), title: "memory copy".into(), share: 0.4 };
        document.points[0].profile = Some(Classes { runs: 1, samples: 500, shares: vec![share] });
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s.parquet");
        document.write_table(&path).unwrap();
        let reader = SerializedFileReader::new(std::fs::File::open(&path).unwrap()).unwrap();
        let rows: Vec<Row> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 31, "three points of ten runs, and one that failed");
        let first = &rows[0];
        assert_eq!(field(first, "vary_block_size"), &Field::Double(1.0));
        assert_eq!(field(first, "vary_mode"), &Field::Str("x".into()));
        assert_eq!((field(first, "state"), field(first, "repeat")), (&Field::Str("done".into()), &Field::Long(1)));
        assert_eq!(field(first, "cause"), &Field::Str("client.read".into()));
        assert_eq!((field(first, "share_client_read"), field(first, "share_server_cpu")), (&Field::Double(0.75), &Field::Double(0.0)));
        assert_eq!((field(first, "class_copy"), field(&rows[30], "class_copy")), (&Field::Double(0.4), &Field::Null));
        assert_eq!(field(first, "rate_bytes_per_s"), &Field::Double(1000.0 / document.points[0].runs[0].wall_s));
        assert_eq!(field(first, "server_cpu_ns_per_byte"), &Field::Double(0.5e9 / 1000.0));
        let failed = &rows[10];
        assert_eq!((field(failed, "state"), field(failed, "wall_s")), (&Field::Str("failed".into()), &Field::Null));
        assert!(matches!(field(failed, "problem"), Field::Str(text) if text.contains("the disk is full")));
        let walls: f64 = rows.iter().map(|row| if let Field::Double(wall) = field(row, "wall_s") { *wall } else { 0.0 }).sum();
        let known: f64 = document.points.iter().flat_map(|point| &point.runs).map(|run| run.wall_s).sum();
        assert!((walls - known).abs() < 1e-9);
    }
}
