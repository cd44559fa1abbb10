//! Keys of events: the place of a connection, and how many connections the place had before it. An event of an earlier
//! connection thus has another key than those of the present one.

/// The key of the events of a place's connection.
pub(super) fn key(place: usize, generation: u32) -> u64 {
    (u64::from(generation) << 32) | place as u64
}

/// The place of a key.
pub(super) fn place(key: u64) -> usize {
    key as u32 as usize
}
