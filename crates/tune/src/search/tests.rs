use super::simulated::{FAMILIES, Law, normal};
use super::*;
use thalweg_measure::SplitMix;

/// Searches a simulated transfer; returns the regret after all runs and after the first three, and the number of runs.
fn regret(law: &Law, budget: usize, noise: f64, random: &mut SplitMix) -> (f64, f64, usize) {
    let mut search = Search::new(law.knobs.clone(), law.start.clone(), budget, BTreeSet::new());
    let (best, mut runs, mut early) = (law.best(), 0, 1.0);
    while let Some(step) = search.step() {
        let causes = law.causes(&step.place);
        let whole: f64 = causes.iter().map(|(_, s)| s).sum();
        let value = (noise * normal(random)).exp() / whole;
        let causes = causes.into_iter().map(|(name, s)| (name, s / whole)).collect();
        search.ran(&step.place, Outcome::Ran { value, causes });
        runs += 1;
        if runs == 3 {
            early = 1.0 - 1.0 / law.seconds(search.best()) / best;
        }
    }
    (1.0 - 1.0 / law.seconds(search.best()) / best, early, runs)
}

fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * q).round() as usize]
}

#[test]
fn twelve_runs_come_within_a_few_percent_of_the_best_of_64_points() {
    let mut random = SplitMix(20_261_125);
    let mut all = Vec::new();
    let mut early = Vec::new();
    for family in 0..FAMILIES {
        let of_family: Vec<f64> = (0..80)
            .map(|_| {
                let law = Law::new(family, &mut random);
                let (regret, after_three, runs) = regret(&law, 12, 0.05, &mut random);
                assert!(runs <= 12);
                early.push(after_three);
                regret
            })
            .collect();
        println!("family {family}: median {:.3}, p95 {:.3}", quantile(&of_family, 0.5), quantile(&of_family, 0.95));
        all.extend(of_family);
    }
    println!("all: median {:.3}, p95 {:.3}; after three runs {:.3}", quantile(&all, 0.5), quantile(&all, 0.95), quantile(&early, 0.5));
    assert!(quantile(&all, 0.5) <= 0.05, "median {}", quantile(&all, 0.5));
    assert!(quantile(&all, 0.95) <= 0.10, "95th percentile {}", quantile(&all, 0.95));
}

fn knob(kind: Kind, numbers: &[f64]) -> Knob {
    Knob { name: format!("{kind:?}").to_lowercase(), kind, numbers: Some(numbers.to_vec()), values: numbers.len() }
}

fn ran(value: f64, cause: &str) -> Outcome {
    Outcome::Ran { value, causes: vec![(cause.into(), 0.9)] }
}

#[test]
fn the_cause_of_the_best_run_picks_the_knob_and_the_way() {
    let knobs = vec![knob(Kind::Streams, &[1.0, 2.0, 4.0, 8.0]), knob(Kind::Window, &[1.0, 2.0, 4.0, 8.0])];
    let mut search = Search::new(knobs, vec![0, 0], 12, BTreeSet::new());
    assert_eq!(search.step().unwrap(), Step { place: vec![0, 0], reason: Reason::Default });
    search.ran(&vec![0, 0], ran(1.0, "network.rwnd"));
    let second = search.step().unwrap();
    assert_eq!(second.place, [2, 2], "a window that limits calls for a larger window, and for more of them");
    assert!(matches!(&second.reason, Reason::Cause { cause, knob, up: true, .. } if cause == "network.rwnd" && knob == "window, streams"));
    search.ran(&second.place, ran(4.0, "client.cpu"));
    let third = search.step().unwrap();
    assert!(matches!(&third.reason, Reason::Cause { cause, .. } if cause == "client.cpu") && third.place[0] < 2, "{third:?}");
}

#[test]
fn what_was_much_too_far_bounds_the_steps_after_it() {
    let mut search = Search::new(vec![knob(Kind::Streams, &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])], vec![0], 30, BTreeSet::new());
    let value = |place: usize| if place <= 3 { 1.0 + place as f64 } else { 0.1 };
    let mut far = 0;
    while let Some(step) = search.step() {
        far += usize::from(step.place[0] > 3 && step.reason != Reason::Leader);
        search.ran(&step.place, ran(value(step.place[0]), "network.loss"));
    }
    assert_eq!(search.best(), &vec![3]);
    assert!(far <= 3, "{far} of the places that are too far were run");
}

#[test]
fn a_setting_that_fails_is_not_run_again_and_is_never_the_best() {
    let mut search = Search::new(vec![knob(Kind::Requests, &[1.0, 2.0, 4.0, 8.0])], vec![0], 12, BTreeSet::new());
    let mut ran_at: BTreeMap<GridPoint, usize> = BTreeMap::new();
    while let Some(step) = search.step() {
        *ran_at.entry(step.place.clone()).or_default() += 1;
        match step.place[0] {
            place @ 0..=1 => search.ran(&step.place, ran(1.0 + place as f64, "client.read")),
            _ => search.ran(&step.place, Outcome::Failed),
        }
    }
    assert_eq!(search.best(), &vec![1]);
    assert!(ran_at.iter().filter(|(place, _)| place[0] > 1).all(|(_, runs)| *runs == 1), "{ran_at:?}");
}

#[test]
fn excluded_places_are_never_run_and_runs_never_exceed_the_budget() {
    let knobs = vec![knob(Kind::Streams, &[1.0, 2.0, 4.0]), knob(Kind::Block, &[1.0, 2.0, 4.0])];
    let excluded: BTreeSet<GridPoint> = [vec![2, 0], vec![0, 2], vec![2, 2]].into();
    for budget in LEAST_RUNS..20 {
        let mut search = Search::new(knobs.clone(), vec![0, 0], budget, excluded.clone());
        let mut runs = 0;
        while let Some(step) = search.step() {
            assert!(!excluded.contains(&step.place));
            search.ran(&step.place, ran(1.0 + step.place.iter().sum::<usize>() as f64, "network.latency"));
            runs += 1;
        }
        assert!(runs <= budget, "{runs} runs of {budget}");
    }
}

#[test]
fn what_an_earlier_search_found_is_run_second_and_counts_only_by_its_run() {
    let mut search = Search::new(vec![knob(Kind::Streams, &[1.0, 2.0, 4.0, 8.0])], vec![0], 6, BTreeSet::new()).remembering(vec![3]);
    search.step().unwrap();
    search.ran(&vec![0], ran(2.0, "network.loss"));
    assert_eq!(search.step().unwrap(), Step { place: vec![3], reason: Reason::Remembered });
    search.ran(&vec![3], ran(1.0, "network.bandwidth"));
    assert_eq!(search.best(), &vec![0]);
}

#[test]
fn a_healthy_ceiling_ends_the_search_and_the_leaders_are_confirmed() {
    let mut search = Search::new(vec![knob(Kind::Streams, &[1.0, 2.0, 4.0, 8.0])], vec![0], 12, BTreeSet::new());
    search.step().unwrap();
    search.ran(&vec![0], ran(2.0, "network.bandwidth"));
    search.enough();
    let rest: Vec<Step> = std::iter::from_fn(|| {
        let step = search.step()?;
        search.ran(&step.place, ran(2.0, "network.bandwidth"));
        Some(step)
    })
    .collect();
    assert_eq!(rest.len(), RUNS_OF_A_LEADER - 1);
    assert!(rest.iter().all(|step| step.reason == Reason::Leader && step.place == [0]));
}
