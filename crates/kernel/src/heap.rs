//! Returning free memory of the allocator to the system.

/// Returns free memory to the system, in whole pages (`malloc_trim(3)`). Otherwise the allocator keeps all
/// memory that it ever obtained, and a server would seem as large as it was while it loaded its zones. Does
/// nothing without glibc.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call touches only memory that the allocator holds as free, under its own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resident_bytes() -> u64 {
        let status = std::fs::read_to_string("/proc/self/statm").unwrap();
        status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn what_was_freed_goes_back_to_the_system() {
        // Small allocations, which the allocator keeps after they are freed, and one behind them that holds
        // the top of the heap.
        let pieces: Vec<Box<[u8; 1000]>> = (0..100_000).map(|_| Box::new([1; 1000])).collect();
        let last = Box::new([1; 1000]);
        let before_bytes = resident_bytes();
        drop(pieces);
        trim();
        let after_bytes = resident_bytes();
        assert!(before_bytes - after_bytes > 50_000_000, "{before_bytes} and then {after_bytes}");
        drop(last);
    }
}
