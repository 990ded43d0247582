//! The rules behind the charges of the critical path.

use serde::Serialize;
use std::collections::BTreeMap;
use thalweg_explain::document::Explanation;

/// A rule, as the header lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct RuleEntry {
    when: &'static str,
    basis: &'static str,
}

/// Returns the rules that an explanation names.
pub(super) fn named(explanation: &Explanation) -> BTreeMap<&'static str, RuleEntry> {
    let applied = explanation.critical_path.iter().flat_map(|charge| &charge.rules);
    applied.map(|applied| (applied.rule.name(), RuleEntry { when: applied.rule.when(), basis: applied.rule.basis() })).collect()
}
