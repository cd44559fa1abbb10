//! CPU time while a trial goes on. To find descendants, it opens a file for each thread of the processes, so it looks for
//! them once a second only. The watch of a trial reads more, and only before and after it.

use std::time::{Duration, Instant};

use kqps_kernel::clock;

use crate::process;

/// The time between two searches for descendants.
const FIND_EVERY: Duration = Duration::from_secs(1);

/// The CPU time of processes and their descendants.
#[derive(Debug)]
pub struct Usage {
    pids: Vec<u32>,
    /// The processes with their descendants, and when these were found; `None` before the first reading.
    families: Option<(Vec<u32>, Instant)>,
}

impl Usage {
    /// The usage of these processes.
    pub fn new(pids: &[u32]) -> Self {
        Self { pids: pids.to_vec(), families: None }
    }

    /// CPU seconds that the processes have used since they started, as far as they still live; `None` if none of them
    /// does. A descendant that started meanwhile counts once it has been found, within a second, and then with all that it
    /// has used.
    pub fn cpu_s(&mut self) -> Option<f64> {
        let now = Instant::now();
        if self.families.as_ref().is_none_or(|(_, found)| now - *found >= FIND_EVERY) {
            self.families = Some((process::families(&self.pids), now));
        }
        let (families, _) = self.families.as_ref()?;
        let of_each = families.iter().filter_map(|pid| clock::process_cpu_ns_of(*pid).ok());
        of_each.reduce(|sum, one| sum + one).map(|sum_ns| sum_ns as f64 / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_used_time_and_one_that_is_not_there_is_unknown() {
        let mut own = Usage::new(&[std::process::id()]);
        let first_s = own.cpu_s().unwrap();
        assert!(first_s > 0.0 && own.cpu_s().unwrap() >= first_s);
        assert_eq!(Usage::new(&[]).cpu_s(), None);
        assert_eq!(Usage::new(&[u32::MAX >> 1]).cpu_s(), None);
    }
}
