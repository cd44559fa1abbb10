//! Whether threads have cores of their own.

/// Whether each thread has a core that neither another thread nor the subject uses, as far as the subject's cores are
/// known. If two real-time threads share a core, the first keeps the second from running.
pub fn have_cores_of_their_own(cpus: &[u32], threads: usize, subject_cpus: &[u32]) -> bool {
    let is_alone = |at: usize| !cpus[..at].contains(&cpus[at]) && !subject_cpus.contains(&cpus[at]);
    threads <= cpus.len() && (0..cpus.len()).all(is_alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_cores_of_their_own_or_share_them() {
        assert!(have_cores_of_their_own(&[1, 2], 2, &[3]));
        assert!(!have_cores_of_their_own(&[1, 2], 3, &[3]));
        assert!(!have_cores_of_their_own(&[1, 1], 2, &[3]));
        assert!(!have_cores_of_their_own(&[1, 2], 2, &[2]));
    }
}
