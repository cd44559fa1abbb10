//! `kqps plan`: how many hosts of the kind that was measured a load takes, from the figures of stored runs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use kqps_files::toml_file::{did_you_mean, nearest};
use kqps_verdict::judge::judge;
use kqps_verdict::percent;
use kqps_verdict::plan::{self, HostPlan, Requirements, sentence};
use kqps_verdict::rate::rate;
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::{self, bad_input};
use crate::print;
use crate::run::words::wrapped;
use crate::stored;
use crate::value::{parse_rate, parse_share, parse_some_time};

const EXAMPLES: &str = "\
Examples:
  kqps plan --load 2M kqps-runs/20261121T220507Z-default
  kqps plan --load 2M --p99 1ms --reserve 50% kqps-runs/mine
  kqps plan --load 500k --cell nsd kqps-runs/before kqps-runs/after
  kqps plan --load 2M --json kqps-runs/mine";

/// Say how many hosts like the measured one a load needs
///
/// It rests on the figures of stored runs, searches or studies: the low end of a rate's range, less a reserve, and the
/// loads at which p99 stayed within a limit. A figure that is refused gives no number of hosts.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folders of the runs, as `kqps run` named them
    #[arg(value_name = "DIR", required = true)]
    runs: Vec<PathBuf>,

    /// The load on all hosts together, q/s
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    load: f64,

    /// The greatest p99 of latency, at the load that each host gets (default: no limit)
    #[arg(long, value_name = "DURATION", value_parser = parse_some_time)]
    p99: Option<Duration>,

    /// The share of each host's rate to keep free
    #[arg(long, value_name = "SHARE", value_parser = parse_share, default_value = "30%")]
    reserve: f64,

    /// Plan for the cell with this name alone (default: every server of the runs)
    #[arg(long, value_name = "CELL")]
    cell: Option<String>,

    /// Print each plan as one JSON object in a line
    #[arg(long)]
    json: bool,
}

/// A plan as `--json` prints it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PrintedPlan<'a> {
    schema: u32,
    kind: &'static str,
    /// The folder of the run.
    run: &'a Path,
    #[serde(flatten)]
    plan: &'a HostPlan,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let wanted = Requirements {
        load_qps: args.load,
        reserve: args.reserve,
        p99_us: args.p99.map(|limit| limit.as_secs_f64() * 1e6),
    };
    let mut plans: Vec<(&Path, HostPlan)> = Vec::new();
    for folder in &args.runs {
        let run = stored::run_in(folder)?;
        let of_run = plan::of_run(&run, &judge(&run), wanted);
        plans.extend(of_run.into_iter().map(|plan| (folder.as_path(), plan)));
    }
    if let Some(cell) = &args.cell {
        plans = of_cell(plans, cell)?;
    }
    if plans.is_empty() {
        anyhow::bail!("there is nothing to plan with: no server was measured");
    }
    for (folder, plan) in &plans {
        if args.json {
            let schema = kqps_observation::SCHEMA;
            print::json(&PrintedPlan { schema, kind: "plan", run: folder, plan })?;
        } else {
            print!("{}", words(plan, (args.runs.len() > 1).then_some(*folder)));
        }
    }
    let is_refused = plans.iter().all(|(_, plan)| plan.hosts.is_none());
    Ok(if is_refused { ExitCode::from(exit::REFUSED) } else { ExitCode::SUCCESS })
}

/// The plans for the cell with this name.
fn of_cell<'a>(plans: Vec<(&'a Path, HostPlan)>, cell: &str) -> anyhow::Result<Vec<(&'a Path, HostPlan)>> {
    if plans.iter().any(|(_, plan)| plan.name == cell) {
        return Ok(plans.into_iter().filter(|(_, plan)| plan.name == cell).collect());
    }
    let names: Vec<&str> = plans.iter().map(|(_, plan)| plan.name.as_str()).collect();
    let hint = did_you_mean(nearest(cell, &names));
    Err(bad_input(format!(
        "no server of the runs is called `{cell}`{hint} (there are: {})",
        names.join(", ")
    )))
}

/// A plan's paragraph. `folder` is that of its run, if there are several runs.
fn words(plan: &HostPlan, folder: Option<&Path>) -> String {
    let of = folder.map_or(String::new(), |folder| format!(" of {}", folder.display()));
    let mut text = format!("{}{of}: grade {}\n", plan.name, plan.grade);
    let mut line = |label: &str, value: &str| text += &wrapped(&format!("  {label:<12} "), value);
    if let Some(reason) = &plan.refused {
        line("refused", reason);
    }
    if let Some(said) = sentence(plan) {
        line("hosts", &said);
    }
    if let (Some(figure), Some(by_rate)) = (plan.rate_qps, plan.by_rate_qps) {
        let mut by = format!("{} q/s", rate(figure.median));
        if figure.high > figure.low {
            let _ = write!(by, " ({} to {})", rate(figure.low), rate(figure.high));
        }
        let reserve = percent::typed(plan.wanted.reserve);
        let _ = write!(by, "; with a reserve of {reserve} %, {} q/s", rate(by_rate));
        line("rate", &by);
    }
    if let (Some(by_latency), Some(p99_us)) = (plan.by_latency_qps, plan.wanted.p99_us) {
        line("latency", &format!("p99 was at most {} µs up to {} q/s", rate(p99_us), rate(by_latency)));
    }
    text.extend(plan.rests_on.iter().map(|sentence| wrapped("  - ", sentence)));
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use kqps_verdict::grade::Grade;
    use kqps_verdict::interval::Interval;

    fn planned() -> HostPlan {
        HostPlan {
            cell: 0,
            name: "nsd".into(),
            grade: Grade::C,
            wanted: Requirements { load_qps: 2e6, reserve: 0.3, p99_us: Some(1_000.0) },
            rate_qps: Some(Interval { median: 310e3, low: 300e3, high: 320e3, coverage: 0.95, count: 6 }),
            by_rate_qps: Some(210e3),
            by_latency_qps: Some(250e3),
            host_qps: Some(210e3),
            hosts: Some(10),
            each_qps: Some(200e3),
            rests_on: vec!["The low end counts.".into()],
            refused: None,
        }
    }

    #[test]
    fn a_plan_has_its_number_first_and_then_what_it_rests_on() {
        let said = words(&planned(), None);
        let expected = "nsd: grade C\n  \
                        hosts        10 hosts for 2,000,000 q/s with p99 up to 1,000 µs and a reserve of \
                        30 %: 200,000 q/s\n               for each\n  \
                        rate         310,000 q/s (300,000 to 320,000); with a reserve of 30 %, 210,000 q/s\n  \
                        latency      p99 was at most 1,000 µs up to 250,000 q/s\n  \
                        - The low end counts.\n\n";
        assert_eq!(said, expected);
    }

    #[test]
    fn a_refusal_has_no_number_and_several_runs_are_named() {
        let refused = HostPlan {
            rate_qps: None,
            by_rate_qps: None,
            by_latency_qps: None,
            hosts: None,
            rests_on: Vec::new(),
            refused: Some("wrong-answers: 1 reply was wrong.".into()),
            ..planned()
        };
        let said = words(&refused, Some(Path::new("runs/one")));
        assert_eq!(said, "nsd of runs/one: grade C\n  refused      wrong-answers: 1 reply was wrong.\n\n");
    }
}
