//! Warnings that question the player: it was busy, starved, late, or its own sockets overflowed.

use kqps_observation::trial::LoadMode;
use kqps_observation::{Histogram, Quantiles, Trial};

use super::{Code, Effect, Warning};
use crate::grade::Grade;
use crate::standstill::Remainder;

/// A thread or core this busy is at its limit.
pub(crate) const BUSY: f64 = 0.95;

/// The offered load may fall short of the intended one by this share.
pub(super) const OFFERED_SHORT: f64 = 0.0025;

/// A player that sends more than a tenth of its queries this many microseconds late does not get the CPU.
const STARVED_LAG_US: u64 = 1_000;

/// Quantiles and rates of fewer queries than this mean nothing.
const ENOUGH_QUERIES: u64 = 1_000;

/// How busy the busiest player thread was, 0 to 1. For pinned threads the core counts too: interrupts and other
/// programs on it are not in the thread's own time, but leave it less. Time that a thread spins without work
/// counts as idle. `None` if nothing is known.
pub fn busiest_thread(trial: &Trial) -> Option<f64> {
    let cores = trial.hosts.first.cpus.iter().filter(|core| trial.players.first.cpus.contains(&core.cpu));
    let busy = cores.map(|core| (1.0 - core.idle - awake(trial, core.cpu)).max(0.0));
    most(own_time(trial).into_iter().chain(busy))
}

/// The share of a core's time in which the player's threads on it spun without work.
fn awake(trial: &Trial, cpu: u32) -> f64 {
    let threads = trial.players.first.per_thread.iter().filter(|thread| thread.cpu == cpu);
    let awake_s: f64 = threads.map(|thread| thread.awake_s).sum();
    if awake_s > 0.0 { awake_s / trial.hosts.first.wall_s } else { 0.0 }
}

/// As [`busiest_thread`], without the time that other programs took: a thread's own time and, if it is pinned
/// and the kernel measures them, the interrupts of its core, most of which are for its own packets. A kernel
/// that only samples interrupts leaves `irq` at zero and books them on the thread that they interrupt.
pub fn busiest_player(trial: &Trial) -> Option<f64> {
    let interrupts = |cpu: u32| {
        let core = trial.hosts.first.cpus.iter().find(|core| core.cpu == cpu && core.irq > 0.0);
        core.filter(|_| trial.players.first.cpus.contains(&cpu)).map_or(0.0, |core| core.irq + core.softirq)
    };
    most(trial.players.first.per_thread.iter().map(|thread| (thread.busy + interrupts(thread.cpu)).min(1.0)))
}

/// As [`busiest_thread`], from the threads' own time alone.
fn own_time(trial: &Trial) -> Option<f64> {
    most(trial.players.first.per_thread.iter().map(|thread| thread.busy))
}

fn most(shares: impl Iterator<Item = f64>) -> Option<f64> {
    shares.reduce(f64::max)
}

/// How a player shows that it did not get the CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Starved {
    /// It gave up this share of its queries, 0 to 1.
    GaveUp(f64),
    /// More than a tenth of its queries left at least this late, microseconds.
    Late(u64),
}

/// The share of the intended queries that the player gave up. Queries that a full window held back are left
/// out, since the load demands that.
fn given_up(trial: &Trial) -> f64 {
    let given_up = trial.accounts.unsent.saturating_sub(trial.held_back());
    given_up as f64 / trial.accounts.intended.max(1) as f64
}

/// The share of the intended queries that were not sent although the window was not full: given up, or refused
/// by the kernel.
pub(super) fn not_sent(trial: &Trial) -> f64 {
    given_up(trial) + trial.accounts.send_failed as f64 / trial.accounts.intended.max(1) as f64
}

/// How the player failed to keep its schedule, however busy it was; `None` if it kept it. A player that gets a
/// twentieth of a CPU is far from busy. Only an open loop has a schedule.
pub fn starved(trial: &Trial) -> Option<Starved> {
    if trial.load.mode == LoadMode::Closed || trial.accounts.intended == 0 {
        return None;
    }
    let gave_up = given_up(trial);
    if gave_up > OFFERED_SHORT {
        return Some(Starved::GaveUp(gave_up));
    }
    let late = match trial.lag_us.p90 {
        Some(p90_us) => p90_us > STARVED_LAG_US,
        None => lag(trial).is_some_and(|lag| lag.len() >= 20 && lag.share_above(STARVED_LAG_US) > 0.1),
    };
    late.then_some(Starved::Late(trial.lag_us.p90.unwrap_or(STARVED_LAG_US)))
}

/// The player was starved (the figure is refused) or busy (no better than C).
pub fn player_limited(trial: &Trial) -> Option<Warning> {
    let busy = busiest_thread(trial);
    if let Some(starved) = starved(trial) {
        let (figure, seen) = match starved {
            Starved::GaveUp(share) => {
                (share, format!("gave up {:.2} % of its queries because it came too late", share * 100.0))
            }
            Starved::Late(lag_us) => (
                lag_us as f64,
                format!("sent more than a tenth of its queries over {:.1} ms late", lag_us as f64 / 1e3),
            ),
        };
        let is_full = |share: Option<f64>| share.is_some_and(|share| share >= BUSY);
        let advice = if is_full(own_time(trial)) {
            "It was busy all the time: give it more threads on cores of their own."
        } else if is_full(busy) {
            "Other work filled its core: stop that, or pin the player elsewhere."
        } else {
            "It did not get the CPU: look for a CPU quota, or for other work on its cores."
        };
        let advice = format!("The player {seen}, so this measures the player. {advice}");
        return Some(Warning::new(Code::PlayerLimited, Effect::Refuse, figure, advice));
    }
    let busy = busy.filter(|busy| *busy >= BUSY)?;
    let advice = format!(
        "A player thread or its core was {:.0} % busy: the subject may be faster than this. Give the player \
         more threads on cores of their own.",
        busy * 100.0
    );
    Some(Warning::new(Code::PlayerLimited, Effect::Cap(Grade::C), busy, advice))
}

/// The share of the queries that may leave late.
const LATE_MOST: f64 = 0.01;

/// Whether standstills of the host explain the late queries, apart from the share that may be late.
fn is_late_by_host(trial: &Trial, limit_us: u64) -> bool {
    let remainder = Remainder::of(trial).filter(|remainder| !remainder.is_too_little());
    let still_share = remainder.map_or(0.0, |remainder| remainder.still_share);
    still_share > 0.0 && lag(trial).is_some_and(|lag| lag.share_above(limit_us) <= LATE_MOST + still_share)
}

/// Queries left late, or the player gave some up. A closed loop has no intended time and cannot lag.
pub fn lagging(trial: &Trial) -> Option<Warning> {
    if trial.load.mode == LoadMode::Closed || trial.accounts.intended < ENOUGH_QUERIES {
        return None;
    }
    let limit_us = lag_limit_us(&trial.latency_us);
    let late = match trial.lag_us.p99 {
        Some(p99_us) => p99_us > limit_us,
        None => lag(trial).is_some_and(|lag| lag.share_above(limit_us) > LATE_MOST),
    };
    if late && !is_late_by_host(trial, limit_us) {
        let figure = trial.lag_us.p99.map(|p99_us| p99_us as f64);
        let seen = match trial.lag_us.p99 {
            Some(p99_us) => {
                format!("1 % of the queries left {p99_us} µs late or later (the limit is {limit_us} µs)")
            }
            None => {
                format!("More than 1 % of the queries left more than {limit_us} µs late, which is the limit")
            }
        };
        let advice = format!(
            "{seen}. Pin the player away from the subject and from interrupts and say which cores the subject has, \
             so that the player runs first on its own; or lower the rate."
        );
        return Some(Warning::new(Code::Lagging, Effect::RedoThenRefuse, figure, advice));
    }
    let short = not_sent(trial);
    let is_refused = trial.accounts.send_failed > trial.accounts.unsent.saturating_sub(trial.held_back());
    (short > OFFERED_SHORT && !is_refused).then(|| {
        let advice = format!(
            "{:.2} % of the intended queries were not sent, most of them because the player came to them too late. Give \
             it more threads or cores, or lower the rate.",
            short * 100.0
        );
        Warning::new(Code::Lagging, Effect::RedoThenRefuse, short, advice)
    })
}

/// The player's own ceiling must be at least this multiple of a figure.
const HEADROOM: f64 = 2.2;

/// Below this multiple, the figure is that of the player.
const HEADROOM_LEAST: f64 = 1.2;

/// The player's own ceiling (a) is less than 2.2 times the figure, which makes the figure doubtful, or less
/// than 1.2 times, which makes it the player's own. `times` is the ratio of the two.
pub fn player_headroom(times: f64) -> Option<Warning> {
    if times >= HEADROOM {
        return None;
    }
    let (effect, says) = if times < HEADROOM_LEAST {
        (Effect::Refuse, "this measures the player")
    } else {
        (Effect::Cap(Grade::C), "the player may have been the limit")
    };
    let advice = format!(
        "The player itself reaches only {times:.2} times this rate, so {says} (2.2 times are needed). Give it more \
         threads on cores of their own."
    );
    Some(Warning::new(Code::PlayerLimited, effect, times, advice))
}

/// 50 µs, or a tenth of the median latency if that is more.
fn lag_limit_us(latency_us: &Quantiles) -> u64 {
    latency_us.p50.map_or(50, |p50_us| (p50_us / 10).max(50))
}

fn lag(trial: &Trial) -> Option<Histogram> {
    trial.histograms.get("lag").and_then(|text| Histogram::decode(text)).filter(|lag| !lag.is_empty())
}

/// The player's own sockets dropped replies.
pub fn client_drops(trial: &Trial) -> Option<Warning> {
    let drops = trial.players.first.socket_drops;
    (drops > 0).then(|| {
        let (own, lost) = (trial.lost_by_player(), trial.accounts.lost);
        let advice = format!(
            "The player's own sockets dropped {drops} replies, so {own} of the {lost} lost queries are the player's \
             own loss and not the subject's. Enlarge their buffers, or use more sockets or threads."
        );
        Warning::new(Code::ClientDrops, Effect::RedoThenRefuse, drops as f64, advice)
    })
}
