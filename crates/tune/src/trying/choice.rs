//! Chooses the proposed change to try: the first with a command that gives nothing up and can be run again.

use super::guard::consumes;
use thalweg_explain::document::WhatIf;

/// The change to try, and those passed over before it, with reasons.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice<'a> {
    /// The change; `None` if none can be tried.
    pub change: Option<&'a WhatIf>,
    /// One sentence per change before it; those without a command share one.
    pub passed_over: Vec<String>,
}

/// Chooses a change. `allowed`: ids of changes that may be made although they give something up; `restored`: whether consumed input is
/// restored before a run.
pub fn choose<'a>(proposed: &'a [WhatIf], allowed: &[String], restored: bool) -> Choice<'a> {
    let mut passed_over = Vec::new();
    let first = proposed.iter().position(|change| !change.command.is_empty()).unwrap_or(proposed.len());
    let without: Vec<&str> = proposed[..first].iter().map(|change| change.change.as_str()).collect();
    if !without.is_empty() {
        passed_over.push(format!("passed over, since no command is known that makes it: {}", without.join("; ")));
    }
    for change in proposed.iter().filter(|change| !change.command.is_empty()) {
        let reason = match &change.gives_up {
            Some(gives_up) if !allowed.contains(&change.id) => {
                Some(format!("it gives up {gives_up}; --allow {} tries it anyway", change.id))
            }
            _ => consumes(&change.command).filter(|_| !restored),
        };
        match reason {
            Some(reason) => passed_over.push(format!("passed over: {}: {reason}", change.change)),
            None => return Choice { change: Some(change), passed_over },
        }
    }
    Choice { change: None, passed_over }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(id: &str, command: &str, gives_up: Option<&str>) -> WhatIf {
        let command: Vec<&str> = command.split_whitespace().collect();
        serde_json::from_value(serde_json::json!({
            "id": id, "change": format!("make {id}"), "predicted_wall_s": 1.0, "speedup": 2.0, "how": "", "command": command, "gives_up": gives_up
        }))
        .expect("a change")
    }

    #[test]
    fn what_gives_something_up_is_made_only_where_that_is_allowed() {
        let proposed = [
            change("disk.x2", "", None),
            change("no_sync", "dd if=a of=b", Some("durability")),
            change("moved", "mv a b", None),
            change("requests", "cp2 a b", None),
        ];
        let first = choose(&proposed, &[], false);
        assert_eq!(first.change.map(|change| change.id.as_str()), Some("requests"));
        let [disk, sync, moved] = first.passed_over.as_slice() else { panic!("{first:?}") };
        assert!(disk.contains("no command is known that makes it: make disk.x2"), "{disk}");
        assert!(sync.contains("gives up durability; --allow no_sync"), "{sync}");
        assert!(moved.contains("mv takes away"), "{moved}");
        assert_eq!(choose(&proposed, &["no_sync".into()], false).change.unwrap().id, "no_sync");
        assert_eq!(choose(&proposed, &[], true).change.unwrap().id, "moved");
        assert_eq!(choose(&proposed[..1], &[], true).change, None);
    }
}
