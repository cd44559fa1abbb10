//! The caches of a server: one of all workers, or one of each.

use std::sync::Arc;

use kqps_cache::{Settings, Shared};

use crate::settings::Sharing;

/// The least memory of a cache in bytes. A smaller one holds few answers, and exceeds a part of little memory by what
/// it needs in any case.
const MEMORY_LEAST: u64 = 1 << 20;

/// The number of caches of this many workers.
fn count(sharing: Sharing, workers: u64) -> u64 {
    if sharing == Sharing::Shared { 1 } else { workers }
}

/// Returns an error if the caches of this many workers would have too little memory, or more than the machine
/// (`machine_bytes`).
pub(crate) fn check(
    settings: &Settings,
    sharing: Sharing,
    workers: u64,
    machine_bytes: u64,
) -> Result<(), String> {
    if machine_bytes < settings.memory_bytes {
        return Err(format!("--memory is more than the {} MiB that this machine has", machine_bytes >> 20));
    }
    let caches = count(sharing, workers);
    if settings.memory_bytes / caches >= MEMORY_LEAST {
        return Ok(());
    }
    Err(format!(
        "each of the {caches} caches needs 1 MiB: use --memory {caches}MiB or more, or --cache shared"
    ))
}

/// The caches of this number of workers, which have all of the memory together. Fails if the kernel has no random
/// numbers.
pub(crate) fn caches(
    settings: &Settings,
    sharing: Sharing,
    workers: usize,
) -> std::io::Result<Vec<Arc<Shared>>> {
    if sharing == Sharing::Shared {
        return Ok(vec![Arc::new(Shared::new(settings, seed()?))]);
    }
    let each = Settings { memory_bytes: settings.memory_bytes / workers as u64, ..settings.clone() };
    let own = |_: usize| -> std::io::Result<Arc<Shared>> { Ok(Arc::new(Shared::for_one(&each, seed()?))) };
    (0..workers).map(own).collect()
}

/// An unpredictable seed for a cache's hashes.
pub(crate) fn seed() -> std::io::Result<[u64; 2]> {
    let mut bytes = [[0; 8]; 2];
    getrandom::fill(bytes.as_flattened_mut())
        .map_err(|error| std::io::Error::other(format!("no random numbers: {error}")))?;
    Ok(bytes.map(u64::from_ne_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cache_has_enough_memory() {
        let settings = Settings { memory_bytes: 4 << 20, ..Settings::default() };
        assert_eq!(check(&settings, Sharing::Split, 4, u64::MAX), Ok(()));
        assert_eq!(check(&settings, Sharing::Shared, 64, 4 << 20), Ok(()));
        assert!(check(&settings, Sharing::Split, 5, u64::MAX).unwrap_err().contains("--memory 5MiB"));
        let why = check(&settings, Sharing::Shared, 1, (4 << 20) - 1).unwrap_err();
        assert!(why.contains("the 3 MiB that this machine has"), "{why}");
        let caches = caches(&settings, Sharing::Split, 4).unwrap();
        assert!(caches.len() == 4 && caches.iter().map(|cache| cache.memory_bytes()).sum::<u64>() <= 4 << 20);
    }
}
