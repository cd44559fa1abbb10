//! The time for which a subject waited for its core while other programs had it.

use std::collections::BTreeSet;

use kqps_observation::Trial;
use kqps_observation::subject::{SubjectFacts, ThreadFacts};

/// A thread with at least this share of a core may make the others wait.
const ACTIVE: f64 = 0.01;

/// Threads with at least this part of the busiest one's CPU time do the same work.
const WORKS: f64 = 0.3;

/// In shorter trials, the kernel's ticks do not show how long a core was idle, seconds.
const TICKS_SHOW_S: f64 = 0.3;

/// The thread that used the most CPU time.
pub(crate) fn busiest(subject: &SubjectFacts) -> Option<&ThreadFacts> {
    subject.threads.iter().max_by(|one, other| one.cpu_s.total_cmp(&other.cpu_s))
}

/// The share of a trial's time for which a working thread of the subject waited for a core while other programs had it, 0
/// to 1: that of the thread that waited longest. `None` if the kernel did not count it, if the subject had nothing to do,
/// or if the player was on its cores.
pub(crate) fn waited(trial: &Trial) -> Option<f64> {
    let subject = trial.subject.as_ref()?;
    let least_s = WORKS * busiest(subject)?.cpu_s;
    let working = subject.threads.iter().filter(|thread| thread.cpu_s >= least_s);
    let waits = working.filter_map(|thread| Some(of_thread(subject, thread)?.min(others(trial, thread))));
    waits.reduce(f64::max).filter(|_| !has_player(trial, subject))
}

/// The share of the time for which a thread waited for a core that none of the subject's own threads had.
fn of_thread(subject: &SubjectFacts, thread: &ThreadFacts) -> Option<f64> {
    let wall_s = thread.cpu_s / thread.busy;
    let active = || subject.threads.iter().filter(|thread| thread.busy >= ACTIVE);
    let ran_on: BTreeSet<u32> = active().map(|thread| thread.cpu).collect();
    let cores = if subject.cpus.is_empty() { ran_on.len() } else { subject.cpus.len() };
    // More threads than cores wait for each other, wherever they ran last.
    let is_crowded = cores > 1 && active().count() > cores;
    let is_beside = |other: &&ThreadFacts| other.tid != thread.tid && (other.cpu == thread.cpu || is_crowded);
    let own_s = subject.threads.iter().filter(is_beside).map(|other| other.cpu_s).sum::<f64>();
    let waited_s = (thread.waited_s? - own_s).max(0.0);
    (wall_s > 0.0).then(|| (waited_s / wall_s).min(1.0))
}

/// The greatest share of the time for which other programs can have had the core of a thread: while it was idle, the thread
/// was being woken. 1 if it is not known.
fn others(trial: &Trial, thread: &ThreadFacts) -> f64 {
    let host = trial.subject_host().filter(|host| host.wall_s >= TICKS_SHOW_S);
    let core = host.and_then(|host| host.cpus.iter().find(|core| core.cpu == thread.cpu));
    core.map_or(1.0, |core| (1.0 - core.idle - thread.busy).max(0.0))
}

/// Whether the player ran on a core of the subject's, so that each waited for the other.
fn has_player(trial: &Trial, subject: &SubjectFacts) -> bool {
    let active = subject.threads.iter().filter(|thread| thread.busy >= ACTIVE);
    let cores: BTreeSet<u32> = active.map(|thread| thread.cpu).chain(subject.cpus.iter().copied()).collect();
    let beside = trial.players.iter().enumerate().filter(|(number, _)| trial.is_beside_subject(*number));
    let mut threads = beside.flat_map(|(_, player)| &player.per_thread);
    threads.any(|thread| cores.contains(&thread.cpu))
}

#[cfg(test)]
mod tests {
    use kqps_observation::HostFacts;
    use kqps_observation::host::CpuFacts;

    use super::*;

    fn thread(tid: u32, cpu: u32, cpu_s: f64, waited_s: Option<f64>) -> ThreadFacts {
        ThreadFacts { tid, cpu, cpu_s, busy: cpu_s, waited_s, ..ThreadFacts::default() }
    }

    /// A trial of one second whose subject may run on these cores.
    fn trial(cpus: &[u32], threads: &[ThreadFacts]) -> Trial {
        let subject =
            SubjectFacts { cpus: cpus.to_vec(), threads: threads.to_vec(), ..SubjectFacts::default() };
        Trial { subject: Some(subject), ..Trial::default() }
    }

    /// Thousandths of the time.
    fn waited_thousandths(cpus: &[u32], threads: &[ThreadFacts]) -> u32 {
        (waited(&trial(cpus, threads)).unwrap() * 1e3).round() as u32
    }

    #[test]
    fn a_server_waits_for_other_programs_and_not_for_its_own_threads() {
        let busy = thread(1, 0, 0.8, Some(0.15));
        assert_eq!(waited_thousandths(&[0], std::slice::from_ref(&busy)), 150);
        assert_eq!(waited_thousandths(&[0], &[busy.clone(), thread(2, 0, 0.1, None)]), 50);
        // A thread with a core of its own takes nothing from it. A third one may have run on either core.
        let beside = thread(2, 1, 0.7, None);
        assert_eq!(waited_thousandths(&[0, 1], &[busy.clone(), beside.clone()]), 150);
        let third = thread(3, 1, 0.1, None);
        assert_eq!(waited_thousandths(&[0, 1], &[busy.clone(), beside.clone(), third.clone()]), 0);
        assert_eq!(waited_thousandths(&[], &[busy, beside, third]), 0);
    }

    #[test]
    fn the_worker_that_waited_longest_counts() {
        let (free, robbed) = (thread(1, 0, 0.9, Some(0.01)), thread(2, 1, 0.5, Some(0.4)));
        assert_eq!(waited_thousandths(&[0, 1], &[free.clone(), robbed]), 400);
        // A helper with little to do waits in vain.
        assert_eq!(waited_thousandths(&[0, 1], &[free, thread(2, 1, 0.05, Some(0.4))]), 10);
    }

    #[test]
    fn a_thread_that_was_woken_slowly_waited_for_nobody() {
        let mut trial = trial(&[0], &[thread(1, 0, 0.4, Some(0.2))]);
        let core = CpuFacts { cpu: 0, idle: 0.55, ..CpuFacts::default() };
        trial.hosts.first = HostFacts { wall_s: 1.0, cpus: vec![core], ..HostFacts::default() };
        assert!((waited(&trial).unwrap() - 0.05).abs() < 1e-9);
        trial.hosts.first.wall_s = 0.1;
        assert!((waited(&trial).unwrap() - 0.2).abs() < 1e-9, "ticks do not show it");
    }

    #[test]
    fn a_player_on_the_core_is_no_other_program() {
        let mut trial = trial(&[0], &[thread(1, 0, 0.4, Some(0.4))]);
        trial.players.first.per_thread = vec![thread(9, 1, 0.5, None)];
        assert!(waited(&trial).is_some());
        trial.players.first.per_thread[0].cpu = 0;
        assert_eq!(waited(&trial), None);
    }

    #[test]
    fn an_idle_server_and_an_older_record_show_nothing() {
        for threads in [vec![thread(1, 0, 0.0, Some(0.0))], vec![thread(1, 0, 0.5, None)], vec![]] {
            assert_eq!(waited(&trial(&[0], &threads)), None);
        }
    }
}
