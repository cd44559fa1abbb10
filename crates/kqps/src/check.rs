//! `kqps check`: whether a target carries a rate, in half a minute and one sentence.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use kqps_verdict::check::{Finding, HEADROOM, Word};
use kqps_verdict::rate::rate;
use kqps_verdict::search::Preset;
use kqps_verdict::speed::Spoiled;
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::{REFUSED, bad_input};
use crate::find;
use crate::load::PlayerArgs;
use crate::print::{self, Versioned};
use crate::value::parse_rate;

/// The status if the check cannot tell.
const CANNOT_TELL: u8 = 4;

/// The highest rate to a target on another host, unless the user gives one.
const MAX_ELSEWHERE_QPS: f64 = 10_000.0;

/// The time of all searches. With the start of its player and the last drain the check ends within half a minute.
const LIMIT: Duration = Duration::from_secs(20);

/// The least time for another search.
const AGAIN: Duration = Duration::from_secs(5);

const EXAMPLES: &str = "\
Examples:
  kqps check 127.0.0.1:5300 -d bench.queries
  kqps check 127.0.0.1:5300 -d bench.queries --need 20k
  kqps check 192.0.2.1 --allow-target 192.0.2.1 -d bench.queries --need 2k";

/// Flags of the player that help shows. Others are taken, too.
const SHOWN: &[&str] = &["targets", "port", "mode", "queries", "allow_target", "need", "max", "json", "help"];

/// Say in half a minute whether a target carries a rate
///
/// kqps searches for the highest rate that the target answers, and prints a sentence that begins with one of three words.
/// fine: the target carries the rate of --need with a quarter of it as headroom, or all that was asked. limited: it does
/// not, and the sentence says at which rate and by what. cannot tell: the trials show neither, and the sentence says why
/// and what would help. The player runs on half of the cores, beside those that the target is pinned to. Flags of
/// `kqps find` for the player are taken, too.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, mut_args(shown))]
pub(crate) struct Args {
    #[command(flatten)]
    player: PlayerArgs,

    /// The rate that the target should carry, queries a second
    #[arg(long, value_name = "RATE", value_parser = parse_rate, help_heading = "Check")]
    need: Option<f64>,

    /// Never send more than this, queries a second (default: no limit on this host, 10k to others)
    #[arg(long, value_name = "RATE", value_parser = parse_rate, help_heading = "Check")]
    max: Option<f64>,

    /// Print the answer as one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
}

fn shown(arg: clap::Arg) -> clap::Arg {
    let is_shown = SHOWN.contains(&arg.get_id().as_str());
    if is_shown { arg } else { arg.hide(true) }
}

/// The JSON object of `--json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Checked {
    /// The targets, with commas between them.
    target: String,
    #[serde(flatten)]
    finding: Finding,
    /// The rate of `--need`.
    need_qps: Option<f64>,
    /// The answer as it is printed.
    sentence: String,
}

/// Searches, and searches again while the player or the host spoils the answer and as much time is left as the last search
/// took.
fn searched(search: &mut find::Args, need: Option<f64>) -> anyhow::Result<Finding> {
    let began = Instant::now();
    loop {
        let before = began.elapsed();
        let verdict = find::verdict(search)?;
        let finding = Finding::from_search(&verdict, need);
        let Spoiled { shifted, withheld, in_part, restless, waited, .. } = verdict.host_spoiled;
        let was_spoiled = !verdict.spoiled.is_empty() || shifted + withheld + in_part + restless + waited > 0;
        let (took, left) = (began.elapsed().saturating_sub(before), LIMIT.saturating_sub(began.elapsed()));
        if finding.word != Word::CannotTell || verdict.interrupted || !was_spoiled || left < took.max(AGAIN) {
            return Ok(finding);
        }
        search.set_time_limit(left);
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { mut player, need, max, json } = args;
    let targets = player.targets()?.addresses;
    let is_elsewhere = !find::are_here(&targets);
    let most = max.or(is_elsewhere.then_some(MAX_ELSEWHERE_QPS));
    if let (Some(need), Some(most)) = (need, most)
        && need * HEADROOM > most
    {
        let (need, with_headroom, most) = (rate(need), rate(need * HEADROOM), rate(most));
        return Err(bad_input(format!(
            "--need {need} takes loads of {with_headroom} q/s, and at most {most} q/s are sent{}: give --max {with_headroom}",
            if max.is_none() { " to another host" } else { "" }
        )));
    }
    player.pin_beside_subject()?;
    // A load that shows the headroom is enough.
    let most = need.map(|need| need * HEADROOM).or(most);
    let mut search = find::Args::quiet(player, Preset::Quick, LIMIT);
    search.set_max(most);
    let finding = searched(&mut search, need)?;
    let target = targets.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let sentence = format!("{}: {target}: {}.", finding.word, finding.why);
    let word = finding.word;
    if json {
        print::json(&Versioned::new(&Checked { target, finding, need_qps: need, sentence }))?;
    } else {
        println!("{sentence}");
        if let Some(helps) = &finding.helps {
            println!("What would help: {helps}.");
        }
    }
    Ok(match word {
        Word::Fine => ExitCode::SUCCESS,
        Word::Limited => ExitCode::from(REFUSED),
        Word::CannotTell => ExitCode::from(CANNOT_TELL),
    })
}
