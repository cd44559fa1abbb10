//! The list of back ends. A new policy keeps the back ends that it shares with the old one, adds others, and lets
//! the rest finish their outstanding queries.

use std::io;
use std::sync::Arc;

use kqps_server::report::add_back_ends;

use super::Dispatcher;
use crate::back_end::BackEnd;
use crate::policy::{self, Policy};
use crate::short;

impl Dispatcher {
    /// Adopts a policy. Back ends that it shares with the old policy stay as they are, new ones are opened, and the
    /// others finish their outstanding queries. Fails if the system has no socket for a new back end; then the old
    /// policy stays.
    pub(crate) fn adopt(&mut self, policy: Arc<Policy>) -> io::Result<()> {
        let mut numbers = Vec::new();
        for wanted in &policy.back_ends {
            let is_it = |known: &Option<BackEnd>| {
                let known = known.as_ref().filter(|known| !known.drains);
                known.is_some_and(|known| known.name == wanted.name && known.target == wanted.target)
            };
            let number = match self.back_ends.iter().position(is_it) {
                Some(number) => number,
                None => match self.settle_in(wanted) {
                    Ok(number) => number,
                    Err(error) => {
                        self.drain_others();
                        let why = format!("back end {} ({}): {error}", wanted.name, wanted.target);
                        return Err(io::Error::new(error.kind(), why));
                    }
                },
            };
            numbers.push(short(number));
        }
        self.numbers = numbers;
        self.drain_others();
        for (index, (wanted, &number)) in policy.back_ends.iter().zip(&self.numbers).enumerate() {
            if let Some(back_end) = &mut self.back_ends[usize::from(number)] {
                back_end.weight = wanted.weight;
                back_end.is_recursive = policy.is_recursive(index);
            }
        }
        self.turns = vec![0; policy.rules.len() + 1];
        self.policy = policy;
        // Outstanding queries may have to be sent once more.
        self.queries.each_sent(|query| {
            query.rule = self.policy.rule(&query.bytes, query.asked).map(short);
        });
        Ok(())
    }

    /// Makes the back ends that are not in the policy finish their outstanding queries.
    fn drain_others(&mut self) {
        for (number, back_end) in (0..).zip(&mut self.back_ends) {
            if let Some(back_end) = back_end {
                back_end.drains = !self.numbers.contains(&number);
            }
        }
    }

    fn settle_in(&mut self, wanted: &policy::BackEnd) -> io::Result<usize> {
        let free = self.back_ends.iter().position(Option::is_none);
        let number = free.unwrap_or(self.back_ends.len());
        let mut back_end = BackEnd::new(number, wanted, &self.settings, &self.registry)?;
        back_end.open(&self.registry, self.now_ns);
        back_end.heard_ns = self.now_ns;
        if number == self.back_ends.len() {
            self.back_ends.push(None);
        }
        self.back_ends[number] = Some(back_end);
        self.queries.make_list(number);
        Ok(number)
    }

    /// Removes a back end that has finished.
    pub(crate) fn see_off(&mut self, number: usize) {
        let Some(mut back_end) = self.back_ends[number].take() else { return };
        for stream in &mut back_end.streams {
            stream.close(&self.registry, self.now_ns);
        }
        add_back_ends(&mut self.gone, &[(back_end.name, back_end.counts)].into());
    }
}
