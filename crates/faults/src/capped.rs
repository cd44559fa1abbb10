//! The rule of a server of known capacity: a token bucket. It holds replies for 5 ms at the rate, and no query waits.

use kqps_kernel::clock;

/// Replies that are saved up while no query comes, as a time at the rate: a hundredth of an interval of resperf.
const SAVED_S: f64 = 5e-3;

/// Returns whether the server answers a query, so that it answers at most this many a second.
pub fn capped(most_qps: f64) -> impl FnMut(&[u8]) -> bool + Send {
    let (mut room, mut at_ns) = (1.0, clock::now_ns());
    move |_| {
        let now_ns = clock::now_ns();
        room += (now_ns - at_ns) as f64 / 1e9 * most_qps;
        room = f64::min(room, (most_qps * SAVED_S).max(1.0));
        at_ns = now_ns;
        let has_room = room >= 1.0;
        room -= if has_room { 1.0 } else { 0.0 };
        has_room
    }
}
