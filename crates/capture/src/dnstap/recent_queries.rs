//! The queries that had frames of their own lately. A response's frame may have its query too; that is another query
//! only if it had no frame.

use std::net::IpAddr;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::tap::Tapped;

/// The table has 16,384 sets of 4, or 512 KiB: the queries without a response so far, of which the earlier ones go.
const SETS: usize = 1 << 14;
const WAYS: usize = 4;

/// Stands for no query.
const NONE: u64 = 0;

pub(super) struct RecentQueries {
    /// Hashes of queries with their clients and transports, the latest of a set first.
    sets: Box<[[u64; WAYS]]>,
}

impl RecentQueries {
    pub(super) fn new() -> Self {
        Self { sets: vec![[NONE; WAYS]; SETS].into_boxed_slice() }
    }

    /// Remembers a query with a frame of its own.
    pub(super) fn remember(&mut self, query: &Tapped) {
        let hash = hash(query);
        let set = &mut self.sets[hash as usize % SETS];
        set.rotate_right(1);
        set[0] = hash;
    }

    /// Forgets a query. Returns whether it had a frame of its own.
    pub(super) fn forget(&mut self, query: &Tapped) -> bool {
        let hash = hash(query);
        let set = &mut self.sets[hash as usize % SETS];
        let found = set.iter_mut().find(|known| **known == hash);
        found.is_some_and(|known| std::mem::replace(known, NONE) != NONE)
    }
}

fn hash(query: &Tapped) -> u64 {
    let mut client = [0; 19];
    let address = match query.client.ip() {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    client[..16].copy_from_slice(&address);
    client[16..18].copy_from_slice(&query.client.port().to_be_bytes());
    client[18] = query.transport.byte();
    xxh3_64_with_seed(&query.bytes, xxh3_64_with_seed(&client, 0)).max(1)
}
