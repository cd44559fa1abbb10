//! The facts of the player: its threads, its sockets, and notes on what it could not do as asked.

use kqps_observation::subject::ThreadFacts;
use kqps_observation::trial::{LoadFacts, LoadMode, PlayerFacts, WallClockFacts};

use super::ports::no_port_left;
use super::tls::{no_certificate, no_early_data, packed_and_lost};
use super::{FinishedTrial, past, replay};
use crate::connections::ConnectionCounts;
use crate::loss::Loss;
use crate::plan::{Plan, Wire};
use crate::tally::Tally;
use crate::wire::xdp;

/// The notes on queries that found no free ID over UDP, and no room on a connection.
const NO_ROOM: [&str; 2] = [
    "queries were unsent because every ID of every socket was outstanding; use more sockets (-c)",
    "queries were unsent because every connection had as many as it takes; use more connections (-c)",
];

/// The notes of [`NO_ROOM`] for a replay, in which a query goes by its client's socket or connection.
const NO_ROOM_IN_REPLAY: [&str; 2] = [
    "queries were unsent because all 65,536 IDs that their client may use were outstanding",
    "queries were unsent because their connection, or every place for one, had as many as it takes",
];

/// The notes on connections for which this host had nothing left, of a replay as well.
const NONE_LEFT: &str =
    "connections failed because this host had no descriptor or memory left; use fewer connections (-c)";
const NONE_LEFT_IN_REPLAY: &str = "connections failed because this host had no descriptor or memory left; play \
                                   fewer slices (--pile) or a shorter window (--window)";

pub(super) fn player(
    played: &FinishedTrial<'_>,
    (tally, connections): (&Tally, Option<&ConnectionCounts>),
    load: &LoadFacts,
    socket_drops: u64,
) -> PlayerFacts {
    let segment_fallbacks = played.results.iter().map(|result| result.fallbacks).sum();
    let mut notes = played.notes.clone();
    let mut note = |count: u64, words: &str| {
        if count > 0 {
            notes.push(format!("{count} {words}"));
        }
    };
    let (for_ids, for_connections) = played.unsent_for_room();
    let [ids, places] = if played.plan.replay.is_some() { NO_ROOM_IN_REPLAY } else { NO_ROOM };
    note(for_ids, ids);
    note(for_connections, places);
    let cut_short = if played.interrupted { tally.cut_short } else { 0 };
    note(
        cut_short,
        "of the lost queries were given up before their timeout, because the second signal ended the drain",
    );
    note(tally.wrong_late, "replies were wrong and came after the timeout; they count as unsolicited");
    note(tally.after_loss, "replies came after their queries were lost by time; they count as unsolicited");
    note(u64::from(segment_fallbacks), "sockets fell back from segmented to single sends");
    if let Some(counts) = connections {
        let none_left = if played.plan.replay.is_some() { NONE_LEFT_IN_REPLAY } else { NONE_LEFT };
        note(counts.failed[Loss::Local.number()], none_left);
        note(
            counts.failed[Loss::Address.number()],
            "connections failed because their source address is not one of this host's, or does not reach the target; \
             send from another one (-a)",
        );
        note(
            played.left_closed(),
            "kept connections were not open when the load began, which then opened those that it needed",
        );
        notes.extend(
            played
                .teams()
                .filter_map(|(team, results)| no_port_left(&super::connections(results)?, load, &team.plan)),
        );
        notes.extend(no_early_data(counts, played.plan));
        notes.extend(no_certificate(counts, played.plan));
        notes.extend(packed_and_lost(tally, played.plan));
    }
    notes.extend(replay::sharing(played));
    notes.extend(xdp::notes(past(played)));
    notes.extend(window_not_filled(load, played.plan, played.sockets()));
    let per_thread = per_thread(played);
    PlayerFacts {
        io: played.io.clone(),
        notes,
        threads: played.plan.threads as u32,
        sockets: played.sockets() as u32,
        cpu_s: cpu_s(played, &per_thread),
        cpus: played.plan.cpus.clone(),
        real_time: !played.results.is_empty() && played.results.iter().all(|result| result.real_time),
        cores_awake: played.cores_awake,
        socket_drops,
        segment_fallbacks,
        wall_clock: wall_clock(played, tally),
        per_thread,
    }
}

/// How the wall clock was set during the trial, as the thread saw it that saw most; `None` if it was not.
fn wall_clock(played: &FinishedTrial<'_>, tally: &Tally) -> Option<WallClockFacts> {
    let each = || played.results.iter().map(|result| result.clock);
    let largest_ns = each().map(|steps| steps.largest_ns).max_by_key(|step_ns| step_ns.unsigned_abs());
    let facts = WallClockFacts {
        steps: each().map(|steps| steps.count).max().unwrap_or(0),
        largest_s: largest_ns.unwrap_or(0) as f64 / 1e9,
        misdated: tally.misdated + each().map(|steps| steps.early).sum::<u64>(),
    };
    (facts.steps > 0 || facts.misdated > 0).then_some(facts)
}

/// CPU seconds of the process, or of the threads of a class beside others.
fn cpu_s(played: &FinishedTrial<'_>, per_thread: &[ThreadFacts]) -> f64 {
    if played.is_single {
        played.watch_result.player_cpu_s
    } else {
        per_thread.iter().map(|thread| thread.cpu_s).sum()
    }
}

/// The facts of each thread of the class. A thread that spins through its waits is not busy meanwhile.
fn per_thread(played: &FinishedTrial<'_>) -> Vec<ThreadFacts> {
    let mut threads = played.watch_result.player_threads.clone();
    let is_own = |thread: &ThreadFacts| played.results.iter().any(|result| result.tid == thread.tid);
    threads.retain(|thread| played.is_single || is_own(thread));
    for thread in &mut threads {
        let result = played.results.iter().find(|result| result.tid == thread.tid);
        let awake_s = result.map_or(0.0, |result| result.awake_ns as f64 / 1e9).min(thread.cpu_s);
        thread.awake_s = awake_s;
        thread.withheld_s = result.map_or(0.0, |result| result.withheld_ns as f64 / 1e9);
        thread.busy = (thread.busy - awake_s / played.watch_result.host.wall_s).max(0.0);
    }
    threads
}

/// A note if the window did not limit a closed loop. By Little's law, the mean number of outstanding queries
/// is the rate times the mean time that a query was outstanding. If it is less than half of the window, the
/// window was not the limit. `flows` are the sockets or connections. Without a correct reply there is another cause.
fn window_not_filled(load: &LoadFacts, plan: &Plan, flows: usize) -> Option<String> {
    // With a highest rate it is the rate that keeps a window from being full.
    let is_full_speed = load.mode == LoadMode::Closed && load.intended_qps.is_none();
    let window = load.outstanding.filter(|_| is_full_speed && load.answered_qps > 0.0)?;
    let mean = load.outstanding_mean?;
    let (each, what) = match &plan.wire {
        Wire::Udp(_) => (IDS, "sockets have only"),
        // Lanes have no common number: each fills a part of the window by rules of its own.
        wire => {
            let of = wire.connection_use()?;
            let most = of.uses_of_connection().map_or(of.outstanding, |most| most.min(of.outstanding));
            (u64::from(most), "connections take only")
        }
    };
    let room = flows as u64 * each;
    let why = if room < window {
        let advice =
            if plan.replay.is_some() { "as many as the capture has clients" } else { "use more (-c)" };
        format!("{flows} {what} {room} queries at once, {advice}")
    } else {
        "replies came faster than the player refilled it, or the trial was too short for it".into()
    };
    (mean < window as f64 / 2.0)
        .then(|| format!("of the window of {window} only {mean:.0} were outstanding on average: {why}"))
}

/// Query IDs of one socket.
const IDS: u64 = 1 << 16;
