//! Properties of the search that hold whatever the subject does.

use kqps_observation::run::Purpose;
use kqps_verdict::search::{
    Class, Goal, Preset, Probe, Start, classify, conditional_throughput, most_trials,
};
use proptest::prelude::*;

use super::simulate::{chance, probe_of, search_with};

fn presets() -> impl Strategy<Value = Goal> {
    prop::sample::select(Preset::ALL.to_vec()).prop_map(Preset::goal)
}

fn trials() -> impl Strategy<Value = Vec<Probe>> {
    let trial = (prop::sample::select(vec![0.1, 0.5, 1.0, 10.0, 60.0]), 0.0..0.01_f64, any::<bool>());
    let probe =
        trial.prop_map(|(duration_s, loss, good)| probe_of(1e5, duration_s, if good { 0.0 } else { loss }));
    prop::collection::vec(probe, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// A subject that answers at random, or against the search, can neither keep it going nor make it late.
    #[test]
    fn it_ends(goal in presets(), seed: u64, guess in 1.0..1e9_f64, good in 0.0..1.0_f64) {
        let random = |_, _, index| if chance(seed, index) < good { 0.0 } else { chance(!seed, index) };
        let searched = search_with(&goal, &Start::default(), random, guess);
        prop_assert!(searched.probes.len() <= most_trials(&goal));
        // 15 % more than the limit, and the drain of the last trial.
        prop_assert!(searched.wall_s <= goal.limit_s * 1.15 + 1.0, "{} s", searched.wall_s);
        let loads = searched.probes.iter().filter(|probe| probe.purpose != Purpose::Ceiling);
        for load_qps in loads.map(|probe| probe.load_qps) {
            prop_assert!(load_qps >= goal.min_qps && load_qps <= goal.max_qps);
            prop_assert!((goal.round_load(load_qps) - load_qps).abs() < f64::EPSILON * load_qps);
        }
    }

    /// A bound rests on a load of that class, and no trial is spent on a settled load.
    #[test]
    fn it_asks_nothing_twice_that_is_settled(goal in presets(), seed: u64, good in 0.0..1.0_f64) {
        let random = |_, _, index| if chance(seed, index) < good { 0.0 } else { 0.01 };
        let searched = search_with(&goal, &Start::default(), random, 1e5);
        for (made, probe) in searched.probes.iter().enumerate() {
            if probe.purpose == Purpose::Search {
                let before = searched.probes[..made].iter().filter(|earlier| {
                    earlier.purpose == Purpose::Search && earlier.load_qps.total_cmp(&probe.load_qps).is_eq()
                });
                prop_assert_eq!(classify(&goal, before), Class::Undecided);
            }
        }
        if let Some(lower_qps) = searched.bounds.lower_qps {
            let at_lower = searched.probes.iter().filter(|probe| {
                probe.purpose == Purpose::Search && probe.load_qps.total_cmp(&lower_qps).is_eq()
            });
            prop_assert_eq!(classify(&goal, at_lower), Class::Lower);
        }
    }

    /// The order of trials does not matter, and one more good trial never makes a load worse.
    #[test]
    fn classes_are_monotonic(goal in presets(), mut probes in trials()) {
        let class = classify(&goal, &probes);
        let rank = |class| match class { Class::Upper => 0, Class::Undecided => 1, Class::Lower => 2 };
        probes.reverse();
        prop_assert_eq!(classify(&goal, &probes), class);
        probes.push(probe_of(1e5, goal.final_s, 0.0));
        prop_assert!(rank(classify(&goal, &probes)) >= rank(class));
    }

    /// At a lower bound, the conditional throughput never loses more than the goal allows.
    #[test]
    fn throughput_is_within_the_loss_of_the_goal(goal in presets(), probes in trials()) {
        if classify(&goal, &probes) == Class::Lower {
            let throughput_qps = conditional_throughput(&goal, 1e5, &probes);
            prop_assert!(throughput_qps >= 1e5 * (1.0 - goal.loss) - 1e-6 && throughput_qps <= 1e5);
        }
    }
}
