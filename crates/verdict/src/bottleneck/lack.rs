//! Why the player was the bottleneck.

use kqps_observation::Trial;

use super::{Losses, mean};
use crate::lack::PlayerLack;
use crate::warning;

/// The player's lack in trials most of whose bad queries it lost or did not send. The most queries decide. `None` if
/// the player lacked CPU time, and nothing is known of its threads and cores.
pub(super) fn of_losses(failed: &[&Trial], losses: &Losses) -> Option<PlayerLack> {
    let known = [
        (losses.without_id, PlayerLack::Ids),
        (losses.dropped, PlayerLack::Buffers),
        (losses.refused, PlayerLack::Sending),
    ];
    let by_cpu = losses.player.saturating_sub(known.iter().map(|(count, _)| count).sum());
    let most = known.into_iter().max_by_key(|(count, _)| *count);
    match most.filter(|(count, _)| *count > by_cpu) {
        Some((_, lack)) => Some(lack),
        None => of_starved(failed),
    }
}

/// The player's lack in trials in which it did not keep its schedule: the lack that most of these show, and of equals
/// the last of `order`, which the host explains least.
pub(super) fn of_starved(failed: &[&Trial]) -> Option<PlayerLack> {
    let lacks: Vec<PlayerLack> = failed.iter().filter_map(|trial| warning::starved_by(trial)).collect();
    let count = |lack: &PlayerLack| lacks.iter().filter(|one| *one == lack).count();
    let order = [PlayerLack::CpuTime, PlayerLack::Core, PlayerLack::Threads, PlayerLack::Ids];
    let most = order.into_iter().max_by_key(count).filter(|lack| count(lack) > 0);
    most.or_else(|| of_full(failed))
}

/// The player's lack in trials in which it or its core was full. `None` if nothing is known of its threads and cores.
pub(super) fn of_full(failed: &[&Trial]) -> Option<PlayerLack> {
    let own = mean(failed.iter().filter_map(|trial| warning::busiest_player(trial)));
    let busy = mean(failed.iter().filter_map(|trial| warning::busiest_thread(trial)));
    PlayerLack::of_shares(own, busy)
}
