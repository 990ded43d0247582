//! The rows of a profile: the classes of all columns, in one order.

use super::column::ProfileColumn;
use thalweg_explain::profile::document::HostProfile;

/// Classes with a smaller share in every column are not shown.
const LEAST_SHARE: f64 = 0.0005;

/// A class, and its share in each column.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) class: String,
    pub(super) title: String,
    pub(super) shares: Vec<Option<f64>>,
}

impl Row {
    pub(super) fn most(&self) -> f64 {
        self.shares.iter().flatten().copied().fold(0.0, f64::max)
    }
}

/// Returns a row for each class that is large enough to show.
pub(super) fn rows(columns: &[ProfileColumn<'_>]) -> Vec<Row> {
    let profiles: Vec<&HostProfile> = columns.iter().map(|column| column.profile).collect();
    let share = |class: &str, profile: &HostProfile| profile.classes.iter().find(|row| row.class == class).and_then(|row| row.share);
    let row = |(class, title): &(&str, &str)| Row {
        class: (*class).to_owned(),
        title: (*title).to_owned(),
        shares: profiles.iter().map(|profile| share(class, profile)).collect(),
    };
    order(&profiles).iter().map(row).filter(|row| row.most() >= LEAST_SHARE).collect()
}

/// Merges the classes of all columns, each in the order of the rules: a class new in a column follows its predecessor in that column.
fn order<'a>(profiles: &[&'a HostProfile]) -> Vec<(&'a str, &'a str)> {
    let mut order: Vec<(&str, &str)> = Vec::new();
    for profile in profiles {
        let mut at = 0;
        for row in &profile.classes {
            match order.iter().position(|(class, _)| *class == row.class) {
                Some(place) => at = place + 1,
                None => {
                    order.insert(at, (&row.class, &row.title));
                    at += 1;
                }
            }
        }
    }
    order
}
