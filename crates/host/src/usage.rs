//! CPU time while a trial goes on. To find descendants, it opens a file for each thread of the processes, so it is asked
//! for a few times a second at most. The watch of a trial reads more, and only before and after it.

use kqps_kernel::clock;

use crate::process;

/// CPU seconds that these processes and their descendants have used since they started, as far as they still live;
/// `None` if none of them does.
pub fn cpu_s(pids: &[u32]) -> Option<f64> {
    let of_each = process::families(pids).into_iter().filter_map(|pid| clock::process_cpu_ns_of(pid).ok());
    of_each.reduce(|sum, one| sum + one).map(|sum_ns| sum_ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_used_time_and_one_that_is_not_there_is_unknown() {
        assert!(cpu_s(&[std::process::id()]).unwrap() > 0.0);
        assert_eq!(cpu_s(&[]), None);
        assert_eq!(cpu_s(&[u32::MAX >> 1]), None);
    }
}
