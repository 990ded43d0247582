//! CPU time by class at a point: the classes of `thalweg profile` over recorded runs.

use super::plan::{Choice, Explain};
use super::sample::{ClassShare, Classes};
use crate::{Error, Result};
use thalweg_explain::profile::Profile;

impl Choice {
    /// Checks that profiles are only asked for with recorded runs.
    pub(super) fn check_profile(&self) -> Result<()> {
        match (self.profile, self.explain) {
            (Some(0), _) => Err(Error::Choice("--profile: expected K of at least 1, for every K-th recorded run".into())),
            (Some(_), Explain::Never) => {
                Err(Error::Choice("--profile: profiles are taken of recorded runs, and --explain never records none".into()))
            }
            _ => Ok(()),
        }
    }

    /// Whether this recorded run is profiled: the first, and from there every n-th.
    pub(super) fn profiles(&self, repeat: usize) -> bool {
        self.profile.is_some_and(|every| repeat.saturating_sub(1).is_multiple_of(every))
    }
}

/// Parses the classes from the output of `thalweg profile --json`.
pub(super) fn classes_of(json: &[u8]) -> std::io::Result<Classes> {
    let profile: Profile = serde_json::from_slice(json)?;
    let host = profile.hosts.first().ok_or_else(|| std::io::Error::other("the profile has no host"))?;
    let share = |class: &thalweg_explain::profile::document::ClassShare| {
        Some(ClassShare { class: class.class.clone(), title: class.title.clone(), share: class.share? })
    };
    Ok(Classes { runs: 1, samples: host.samples, shares: host.classes.iter().filter_map(share).collect() })
}

/// Merges profiles: the mean of each share, over those that have shares.
pub(super) fn merged<'a>(all: impl Iterator<Item = &'a Classes>) -> Option<Classes> {
    let all: Vec<&Classes> = all.collect();
    let known = all.iter().filter(|classes| !classes.shares.is_empty()).count();
    let mut shares: Vec<ClassShare> = Vec::new();
    for one in all.iter().flat_map(|classes| &classes.shares) {
        let part = one.share / known as f64;
        match shares.iter_mut().find(|class| class.class == one.class) {
            Some(class) => class.share += part,
            None => shares.push(ClassShare { share: part, ..one.clone() }),
        }
    }
    let classes = Classes { runs: all.len(), samples: all.iter().map(|classes| classes.samples).sum(), shares };
    (classes.runs > 0).then_some(classes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(samples: u64, shares: &[(&str, f64)]) -> Classes {
        let share = |(class, share): &(&str, f64)| ClassShare { class: (*class).into(), title: (*class).into(), share: *share };
        Classes { runs: 1, samples, shares: shares.iter().map(share).collect() }
    }

    #[test]
    fn profiles_are_merged_by_their_means_and_one_with_too_few_samples_moves_no_share() {
        let all = [classes(400, &[("idle", 0.5), ("copy", 0.5)]), classes(20, &[]), classes(300, &[("idle", 0.7), ("net", 0.3)])];
        let merged = merged(all.iter()).unwrap();
        assert_eq!((merged.runs, merged.samples), (3, 720));
        let shares: Vec<(&str, f64)> = merged.shares.iter().map(|class| (class.class.as_str(), class.share)).collect();
        assert_eq!(shares, [("idle", 0.6), ("copy", 0.25), ("net", 0.15)]);
        assert_eq!(super::merged(std::iter::empty()), None);
    }

    #[test]
    fn every_so_many_th_recorded_run_is_profiled_from_the_first_on() {
        let choice = |profile| Choice { profile, ..Choice::default() };
        let of = |profile| (1..=7).filter(|repeat| choice(profile).profiles(*repeat)).collect::<Vec<_>>();
        assert_eq!((of(None), of(Some(1)).len(), of(Some(3))), (vec![], 7, vec![1, 4, 7]));
        assert!(choice(Some(0)).check_profile().is_err());
        assert!(Choice { explain: Explain::Never, ..choice(Some(1)) }.check_profile().is_err());
    }
}
