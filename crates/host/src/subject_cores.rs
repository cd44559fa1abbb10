//! Threads that read for kqps beside a subject.

use kqps_kernel::affinity;

/// Keeps the calling thread off these cores, if it may run on others.
pub(crate) fn leave(cpus: &[u32]) {
    let others = others(&affinity::allowed().unwrap_or_default(), cpus);
    if !others.is_empty() && !cpus.is_empty() {
        // If the kernel refuses, the thread takes a little of the subject's time.
        let _ = affinity::confine_thread(affinity::thread_id(), &others);
    }
}

fn others(allowed: &[u32], cpus: &[u32]) -> Vec<u32> {
    allowed.iter().copied().filter(|cpu| !cpus.contains(cpu)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reading_thread_leaves_the_cores_of_the_subject() {
        assert_eq!(others(&[0, 1, 2, 3], &[1, 3]), [0, 2]);
        let allowed = affinity::allowed().unwrap();
        let left = std::thread::spawn(move || {
            leave(&allowed[..1]);
            (allowed.len(), affinity::allowed().unwrap().contains(&allowed[0]))
        });
        let (cores, is_there) = left.join().unwrap();
        assert_eq!(is_there, cores == 1, "it stays if there is no other core");
    }
}
