//! Warnings that question the player: it was busy, starved, late, or its own sockets overflowed.

use kqps_observation::trial::LoadMode;
use kqps_observation::{Quantiles, Trial};

use super::players::{self, Player, Share, on, shares};
use super::{Code, Effect, Warning};
use crate::grade::Grade;
use crate::lack::PlayerLack;
use crate::standstill::Remainder;

/// A thread or core this busy is at its limit.
pub(crate) const BUSY: f64 = 0.95;

/// The offered load may fall short of the intended one by this share.
pub(super) const OFFERED_SHORT: f64 = 0.0025;

/// A player that sends more than a tenth of its queries this many microseconds late does not get the CPU.
const STARVED_LAG_US: u64 = 1_000;

/// Quantiles and rates of fewer queries than this mean nothing.
const ENOUGH_QUERIES: u64 = 1_000;

/// How busy the busiest player thread was, 0 to 1, over all players. For pinned threads the core counts too:
/// interrupts and other programs on it are not in the thread's own time, but leave it less. Time that a thread spins
/// without work counts as idle. `None` if nothing is known.
pub fn busiest_thread(trial: &Trial) -> Option<f64> {
    most(players::all(trial).iter().filter_map(busy))
}

/// As [`busiest_thread`], of one player.
fn busy(player: &Player<'_>) -> Option<f64> {
    let cores = player.machine.cpus.iter().filter(|core| player.facts.cpus.contains(&core.cpu));
    let busy = cores.map(|core| (1.0 - core.idle - awake(player, core.cpu)).max(0.0));
    most(own_time(player).into_iter().chain(busy))
}

/// The share of a core's time in which the player's threads on it spun without work.
fn awake(player: &Player<'_>, cpu: u32) -> f64 {
    let threads = player.facts.per_thread.iter().filter(|thread| thread.cpu == cpu);
    let awake_s: f64 = threads.map(|thread| thread.awake_s).sum();
    if awake_s > 0.0 { awake_s / player.machine.wall_s } else { 0.0 }
}

/// As [`busiest_thread`], without the time that other programs took: a thread's own time and, if it is pinned
/// and the kernel measures them, the interrupts of its core, most of which are for its own packets. A kernel
/// that only samples interrupts leaves `irq` at zero and books them on the thread that they interrupt.
pub fn busiest_player(trial: &Trial) -> Option<f64> {
    most(players::all(trial).iter().filter_map(own_work))
}

/// As [`busiest_player`], of one player.
fn own_work(player: &Player<'_>) -> Option<f64> {
    let interrupts = |cpu: u32| {
        let core = player.machine.cpus.iter().find(|core| core.cpu == cpu && core.irq > 0.0);
        core.filter(|_| player.facts.cpus.contains(&cpu)).map_or(0.0, |core| core.irq + core.softirq)
    };
    most(player.facts.per_thread.iter().map(|thread| (thread.busy + interrupts(thread.cpu)).min(1.0)))
}

/// As [`busy`], from the threads' own time alone.
fn own_time(player: &Player<'_>) -> Option<f64> {
    most(player.facts.per_thread.iter().map(|thread| thread.busy))
}

fn most(shares: impl Iterator<Item = f64>) -> Option<f64> {
    shares.reduce(f64::max)
}

/// How a player failed to keep its schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Starved {
    /// It gave up this share of its queries, 0 to 1, most of them because no ID was free.
    NoIds(f64),
    /// It gave up this share of its queries, 0 to 1, most of them because it came to them too late.
    GaveUp(f64),
    /// More than a tenth of its queries left at least this late, microseconds.
    Late(u64),
}

impl Starved {
    /// The share of its queries that it gave up, and how late others were.
    fn extent(self) -> (f64, u64) {
        match self {
            Self::NoIds(share) | Self::GaveUp(share) => (share, 0),
            Self::Late(lag_us) => (0.0, lag_us),
        }
    }
}

/// The lack of the starved player of a trial; `None` if no player was starved, or if nothing shows it.
pub(crate) fn starved_by(trial: &Trial) -> Option<PlayerLack> {
    worst_starved(trial).and_then(|(starved, host)| lack(trial, starved, host))
}

/// The lack of the starved player on this host; of all players without a host.
fn lack(trial: &Trial, starved: Starved, host: Option<&str>) -> Option<PlayerLack> {
    if matches!(starved, Starved::NoIds(_)) {
        return Some(PlayerLack::Ids);
    }
    let mut players = players::all(trial);
    players.retain(|player| host.is_none() || player.host == host);
    let busiest = |share: fn(&Player<'_>) -> Option<f64>| most(players.iter().filter_map(share));
    PlayerLack::of_shares(busiest(own_work), busiest(busy))
}

/// How the player failed to keep its schedule, however busy it was; `None` if it kept it. A player that gets a
/// twentieth of a CPU is far from busy. Only an open loop has a schedule. Of several players, it is the worst.
pub fn starved(trial: &Trial) -> Option<Starved> {
    worst_starved(trial).map(|(starved, _)| starved)
}

/// The worst of the players that failed to keep their schedule, and the name of its host.
fn worst_starved(trial: &Trial) -> Option<(Starved, Option<&str>)> {
    if trial.load.mode == LoadMode::Closed {
        return None;
    }
    let starved = shares(trial).into_iter().filter_map(|share| Some((starved_of(&share)?, share.host)));
    // A named player wins among equals.
    starved.reduce(|worst, other| if worst.0.extent() > other.0.extent() { worst } else { other })
}

fn starved_of(share: &Share<'_>) -> Option<Starved> {
    if share.accounts.intended == 0 {
        return None;
    }
    let gave_up = share.given_up_share();
    if gave_up > OFFERED_SHORT {
        let is_by_ids = share.without_id() > share.missed();
        return Some(if is_by_ids { Starved::NoIds(gave_up) } else { Starved::GaveUp(gave_up) });
    }
    let late = match share.lag_us.p90 {
        Some(p90_us) => p90_us > STARVED_LAG_US,
        None => share.lag().is_some_and(|lag| lag.len() >= 20 && lag.share_above(STARVED_LAG_US) > 0.1),
    };
    late.then_some(Starved::Late(share.lag_us.p90.unwrap_or(STARVED_LAG_US)))
}

/// The player was starved (the figure is refused) or busy (no better than C). Of several players the worst is named.
pub fn player_limited(trial: &Trial) -> Option<Warning> {
    if let Some((starved, host)) = worst_starved(trial) {
        return Some(starved_warning(trial, starved, host));
    }
    let players = players::all(trial).into_iter();
    let each = players.filter_map(|player| Some((busy(&player)?, player.host)));
    let busiest = each.max_by(|one, other| one.0.total_cmp(&other.0));
    let (busy, host) = busiest.filter(|(busy, _)| *busy >= BUSY)?;
    let advice = format!(
        "A player thread{} or its core was {:.0} % busy: the subject may be faster than this. Give the player \
         more threads on cores of their own.",
        on(host),
        busy * 100.0
    );
    Some(Warning::new(Code::PlayerLimited, Effect::Cap(Grade::C), busy, advice))
}

/// A player got no CPU time, so that its trial has no record.
pub fn player_without_cpu_time() -> Warning {
    let advice = "The player got so little CPU time that its trial did not end: other programs with a higher priority had \
                  its core. Stop them, or pin the player elsewhere.";
    Warning::new(Code::PlayerLimited, Effect::Refuse, 1.0, advice.to_owned())
}

fn starved_warning(trial: &Trial, starved: Starved, host: Option<&str>) -> Warning {
    let (figure, seen) = match starved {
        Starved::NoIds(share) => (
            share,
            format!("gave up {:.2} % of its queries, most of them because no ID was free", share * 100.0),
        ),
        Starved::GaveUp(share) => {
            (share, format!("gave up {:.2} % of its queries because it came too late", share * 100.0))
        }
        Starved::Late(lag_us) => (
            lag_us as f64,
            format!("sent more than a tenth of its queries over {:.1} ms late", lag_us as f64 / 1e3),
        ),
    };
    let advice = match lack(trial, starved, host) {
        Some(PlayerLack::Ids) if trial.replay.is_some() => {
            "Every ID of a client's sockets was outstanding: let it wait less for replies (-t)."
        }
        Some(PlayerLack::Ids) => {
            "Every ID of every socket was outstanding: give it more sockets (-c), or let it wait less for replies (-t)."
        }
        Some(PlayerLack::Threads) => "It was busy all the time: give it more threads on cores of their own.",
        Some(PlayerLack::Core) => "Other work filled its core: stop that, or pin the player elsewhere.",
        Some(_) => "It did not get the CPU: look for a CPU quota, or for other work on its cores.",
        None => "How busy it was is not known: look for a CPU quota, or for other work on its cores.",
    };
    let advice = format!("The player{} {seen}, so this measures the player. {advice}", on(host));
    Warning::new(Code::PlayerLimited, Effect::Refuse, figure, advice)
}

/// The share of the queries that may leave late.
const LATE_MOST: f64 = 0.01;

/// Whether standstills of the host explain the late queries, apart from the share that may be late. No witness watches
/// several hosts.
fn is_late_by_host(trial: &Trial, share: &Share<'_>) -> bool {
    let remainder = Remainder::from_trial(trial).filter(|remainder| !remainder.is_too_little());
    let still_share = remainder.map_or(0.0, |remainder| remainder.still_share);
    let limit_us = lag_limit_us(share.latency_us);
    still_share > 0.0 && share.lag().is_some_and(|lag| lag.share_above(limit_us) <= LATE_MOST + still_share)
}

/// Queries left late, or the player gave some up. A closed loop has no intended time and cannot lag. Of several players
/// the worst is named.
pub fn lagging(trial: &Trial) -> Option<Warning> {
    if trial.load.mode == LoadMode::Closed {
        return None;
    }
    let mut shares = shares(trial);
    shares.retain(|share| share.accounts.intended >= ENOUGH_QUERIES);
    let late = shares.iter().filter(|share| is_late(share) && !is_late_by_host(trial, share));
    // A named player comes last among equals.
    if let Some(share) = late.max_by_key(|share| share.lag_us.p99) {
        return Some(late_warning(share));
    }
    let is_short = |share: &&Share<'_>| {
        let others = share.accounts.send_failed.max(share.without_id());
        share.not_sent_share() > OFFERED_SHORT && others <= share.missed()
    };
    let short = shares.iter().filter(is_short);
    let worst = short.max_by(|one, other| one.not_sent_share().total_cmp(&other.not_sent_share()))?;
    let advice = format!(
        "{:.2} % of the intended queries{} were not sent, most of them because the player came to them too late. Give \
         it more threads or cores, or lower the rate.",
        worst.not_sent_share() * 100.0,
        on(worst.host)
    );
    Some(Warning::new(Code::Lagging, Effect::RedoThenRefuse, worst.not_sent_share(), advice))
}

fn is_late(share: &Share<'_>) -> bool {
    let limit_us = lag_limit_us(share.latency_us);
    match share.lag_us.p99 {
        Some(p99_us) => p99_us > limit_us,
        None => share.lag().is_some_and(|lag| lag.share_above(limit_us) > LATE_MOST),
    }
}

fn late_warning(share: &Share<'_>) -> Warning {
    let limit_us = lag_limit_us(share.latency_us);
    let seen = match share.lag_us.p99 {
        Some(p99_us) => {
            format!(
                "1 % of the queries{} left {p99_us} µs late or later (the limit is {limit_us} µs)",
                on(share.host)
            )
        }
        None => {
            format!("More than 1 % of the queries left more than {limit_us} µs late, which is the limit")
        }
    };
    let advice = format!(
        "{seen}. Pin the player away from the subject and from interrupts and say which cores the subject has, \
         so that the player runs first on its own; or lower the rate."
    );
    let figure = share.lag_us.p99.map(|p99_us| p99_us as f64);
    Warning::new(Code::Lagging, Effect::RedoThenRefuse, figure, advice)
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

/// The player's own sockets dropped replies. Of several players the worst is named.
pub fn client_drops(trial: &Trial) -> Option<Warning> {
    let drops = trial.player_socket_drops();
    (drops > 0).then(|| {
        let worst = players::all(trial).into_iter().max_by_key(|player| player.facts.socket_drops);
        let seen = match worst.and_then(|player| Some((player.host?, player.facts.socket_drops))) {
            Some((host, most)) => {
                format!("The players' own sockets dropped {drops} replies, {most} of them on {host}")
            }
            None => format!("The player's own sockets dropped {drops} replies"),
        };
        let (own, lost) = (trial.lost_by_player(), trial.accounts.lost);
        let advice = format!(
            "{seen}, so {own} of the {lost} lost queries are the player's own loss and not the subject's. Enlarge their \
             buffers, or use more sockets or threads."
        );
        Warning::new(Code::ClientDrops, Effect::RedoThenRefuse, drops as f64, advice)
    })
}
