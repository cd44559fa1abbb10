//! The counts of all threads of the server.

use std::sync::{Arc, Mutex, PoisonError};

use super::census::Census;
use super::tally::Tally;
use crate::connections::TcpReport;
use crate::report::{InternetReport, Report};

/// The counts of all threads: some can be read at any time, others when the threads have ended.
#[derive(Default)]
pub struct Book {
    over_udp: Mutex<Vec<Arc<Tally>>>,
    over_tcp: Mutex<Vec<Arc<Tally>>>,
    /// The sum of the counts of threads that have ended.
    ended: Mutex<Option<Census>>,
}

/// The transport of a thread's queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Udp,
    Tcp,
}

impl Book {
    /// The counts of a thread that begins, for a tree that has so many faults.
    pub(super) fn begin(&self, over: Over, faults: usize) -> Arc<Tally> {
        let tallies = if over == Over::Udp { &self.over_udp } else { &self.over_tcp };
        let tally = Arc::new(Tally::new(faults));
        tallies.lock().unwrap_or_else(PoisonError::into_inner).push(tally.clone());
        tally
    }

    /// Takes the counts of a thread that ends.
    pub(super) fn end(&self, census: Census) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *ended {
            Some(sum) => sum.add_all(census),
            None => *ended = Some(census),
        }
    }

    /// A report of the server while it runs, without drops, which are known at the end.
    pub fn report_so_far(&self, faults: &[&str], top: usize) -> Report {
        let sum = |tallies: &Mutex<Vec<Arc<Tally>>>| {
            let tallies = tallies.lock().unwrap_or_else(PoisonError::into_inner);
            tallies
                .iter()
                .map(|tally| tally.received_and_answered())
                .fold((0, 0), |sum, of_one| (sum.0 + of_one.0, sum.1 + of_one.1))
        };
        let ((received, answered), (over_tcp, answered_over_tcp)) =
            (sum(&self.over_udp), sum(&self.over_tcp));
        let tcp = TcpReport { received: over_tcp, answered: answered_over_tcp, ..TcpReport::default() };
        let internet = Some(self.report(faults, top));
        Report { received, answered, tcp: Some(tcp), internet, ..Report::default() }
    }

    /// The counts so far. `faults` are the names of the tree's faults, and `top` is how many servers and questions to name.
    pub fn report(&self, faults: &[&str], top: usize) -> InternetReport {
        let mut report = InternetReport::default();
        for (tallies, answers) in [(&self.over_udp, &mut report.udp), (&self.over_tcp, &mut report.tcp)] {
            for tally in &*tallies.lock().unwrap_or_else(PoisonError::into_inner) {
                tally.add_answers(answers);
                tally.add_faults(faults, &mut report.faults);
                report.under_way += tally.under_way();
            }
        }
        if let Some(census) = &*self.ended.lock().unwrap_or_else(PoisonError::into_inner) {
            report.servers = Some(census.servers(top));
            report.questions = Some(census.questions(top));
            let late = &census.lateness;
            report.delayed = late.count();
            (report.late_p50_us, report.late_p99_us) = (late.quantile_us(0.5), late.quantile_us(0.99));
            report.late_most_us = (report.delayed > 0).then(|| late.most_us());
        }
        report
    }
}
