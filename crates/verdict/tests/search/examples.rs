//! The worked examples of RFC 9971, in `tests/data/mlrsearch-examples.json`.

use kqps_verdict::search::{Class, Goal, Preset, Probe, classify, conditional_throughput};
use serde_json::Value;

use super::simulate::probe_of;

fn examples() -> Value {
    serde_json::from_str(include_str!("../data/mlrsearch-examples.json")).unwrap()
}

fn goals(examples: &Value) -> Vec<Goal> {
    let number = |goal: &Value, key: &str| goal[key].as_f64().unwrap();
    let goals = examples["goals"].as_array().unwrap().iter();
    goals
        .map(|goal| Goal {
            name: goal["name"].as_str().unwrap().into(),
            final_s: number(goal, "final_s"),
            sum_s: number(goal, "sum_s"),
            loss: number(goal, "loss"),
            exceed: number(goal, "exceed"),
            ..Preset::Default.goal()
        })
        .collect()
}

/// Two cells of the published table contradict the rule that they illustrate. The goal "20% exceed" has
/// exceed ratios of 42.857 % (45 s of 105 s) and 27.273 % (45 s of 165 s) there, which the table itself
/// prints, and both are above 20 %. The test follows the rule, as the package `MLRsearch` does.
const MISPRINTS: [(&str, &str); 2] = [("first long bad", "20% exceed"), ("first long good", "20% exceed")];

fn wanted(point: &Value, goals: &[Goal]) -> Vec<Class> {
    let printed: Vec<Class> = serde_json::from_value(point["class"].clone()).unwrap();
    let name = point["name"].as_str().unwrap();
    let cells = goals.iter().zip(printed);
    cells
        .map(|(goal, class)| if MISPRINTS.contains(&(name, &goal.name)) { Class::Upper } else { class })
        .collect()
}

#[test]
fn every_load_is_classified_as_in_the_worked_examples() {
    let examples = examples();
    let goals = goals(&examples);
    let load_qps = examples["load_qps"].as_f64().unwrap();
    let mut probes: Vec<Probe> = Vec::new();
    for point in examples["points"].as_array().unwrap() {
        for added in point["added"].as_array().unwrap() {
            let (duration_s, loss) = (added["duration_s"].as_f64().unwrap(), added["loss"].as_f64().unwrap());
            let probe = probe_of(load_qps, duration_s, loss);
            probes.extend(std::iter::repeat_n(probe, added["count"].as_u64().unwrap() as usize));
        }
        let found: Vec<Class> = goals.iter().map(|goal| classify(goal, &probes)).collect();
        assert_eq!(found, wanted(point, &goals), "at the point '{}'", point["name"]);
    }

    for (name, wanted_qps) in examples["conditional_throughput_at_last_point"].as_object().unwrap() {
        let goal = goals.iter().find(|goal| goal.name == *name).unwrap();
        let found_qps = conditional_throughput(goal, load_qps, &probes);
        assert!((found_qps - wanted_qps.as_f64().unwrap()).abs() < 1e-6, "{name}: {found_qps}");
    }
}
