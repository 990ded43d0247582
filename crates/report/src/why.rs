//! The rules by which time was charged, and the spans they are based on, to verify a charge.

use crate::page::{Ink, Page};
use crate::words::{cause_name, place_name};
use thalweg_base::numbers::{duration, percent};
use thalweg_explain::document::{Charge, Explanation};

/// Charges smaller than this share of the wall time are left out.
const SMALL_SHARE: f64 = 0.01;

impl Page {
    /// Adds the rules of each charge, if requested.
    pub(crate) fn why(&mut self, e: &Explanation) {
        if e.critical_path.iter().all(|charge| charge.rules.is_empty()) {
            return;
        }
        self.heading("Why");
        for charge in e.critical_path.iter().filter(|charge| charge.share >= SMALL_SHARE) {
            self.grounds(e, charge);
        }
    }

    fn grounds(&mut self, e: &Explanation, charge: &Charge) {
        let head = format!("{} of {}: {}", percent(charge.share), cause_name(e, charge.cause), place_name(e, &charge.place));
        self.hanging(0, 2, &head, Ink::Of(charge.cause));
        for applied in &charge.rules {
            let (rule, share) = (applied.rule, applied.seconds / charge.seconds);
            let text = format!("{} of it by `{}`: {} (based on: {})", percent(share), rule.name(), rule.when(), rule.basis());
            self.hanging(2, 4, &text, Ink::Plain);
            for stretch in &applied.rests_on {
                let within = match (&stretch.kind, stretch.span) {
                    (Some(kind), Some(span)) => format!("{kind}, span {span}"),
                    _ => "between spans".to_owned(),
                };
                let text = format!("at {:.6} s for {}: {within}", stretch.start_s, duration(stretch.end_s - stretch.start_s));
                self.hanging(4, 6, &text, Ink::Dim);
            }
        }
    }
}
