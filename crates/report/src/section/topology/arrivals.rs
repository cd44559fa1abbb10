//! Where packets arrive: the cores that take the interrupts of network devices, and the cores that their queues
//! are steered to. All that arrives at the same cores shares one letter.

use std::collections::BTreeMap;

use kqps_observation::{Fingerprint, cpu_list};

use crate::format;

/// Interrupts and queues by the cores at which they arrive.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// Cores, in rising order → the interrupts and queues that arrive at them.
    by_cores: BTreeMap<Vec<u32>, Vec<String>>,
}

impl Arrivals {
    pub(super) fn from_host(host: &Fingerprint) -> Self {
        let mut by_cores: BTreeMap<Vec<u32>, Vec<String>> = BTreeMap::new();
        let interrupts =
            host.interrupts.iter().map(|(name, cores)| (format!("interrupt {name}"), listed(cores)));
        let queues = host.queues.iter().map(|(name, text)| (format!("queue {name}"), steered(text)));
        for (name, cores) in interrupts.chain(queues) {
            if !cores.is_empty() {
                by_cores.entry(cores).or_default().push(name);
            }
        }
        Self { by_cores }
    }

    /// The letters of all that arrives at a core.
    pub(super) fn at(&self, cpu: u32) -> Vec<String> {
        let here = self.by_cores.keys().enumerate().filter(|(_, cores)| cores.contains(&cpu));
        here.map(|(index, _)| letter(index)).collect()
    }

    /// Every letter and its meaning.
    pub(super) fn letters(&self) -> Vec<(String, String)> {
        let line = |(index, (cores, names)): (usize, (&Vec<u32>, &Vec<String>))| {
            (letter(index), format!("on {}: {}", format::cpus(cores), names.join(", ")))
        };
        self.by_cores.iter().enumerate().map(line).collect()
    }
}

/// `a` to `z`, then `aa` and so on.
fn letter(index: usize) -> String {
    let last = char::from(b'a' + u8::try_from(index % 26).expect("26 letters"));
    match index / 26 {
        0 => last.to_string(),
        before => letter(before - 1) + &last.to_string(),
    }
}

/// A list of cores such as `0-3,8`; none if it cannot be read.
fn listed(text: &str) -> Vec<u32> {
    cpu_list::parse(text).unwrap_or_default()
}

/// The cores that a queue's packets are steered to on arrival: the mask of `rps_cpus`, in hexadecimal with a
/// comma after every eight digits. <https://docs.kernel.org/networking/scaling.html>
fn steered(text: &str) -> Vec<u32> {
    let Some((_, mask)) = text.split_once("rps_cpus ") else { return Vec::new() };
    let digits = mask.chars().take_while(|c| c.is_ascii_hexdigit() || *c == ',');
    let digits: Vec<u32> = digits.filter_map(|c| c.to_digit(16)).collect();
    let of_digit = |(place, digit): (u32, &u32)| {
        let digit = *digit;
        (0..4u32).filter(move |bit| digit >> bit & 1 == 1).map(move |bit| place * 4 + bit)
    };
    (0..).zip(digits.iter().rev()).flat_map(of_digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_read_as_the_kernel_writes_them() {
        assert_eq!(listed("0-2,8"), [0, 1, 2, 8]);
        assert_eq!(listed("nonsense, 7-3, 0-4294967295"), [0; 0]);
        assert_eq!(steered("rps_cpus 00000001,00000006, rps_flow_cnt 0"), [1, 2, 32]);
        assert_eq!(steered("xps_cpus 3, xps_rxqs 0"), [0; 0]);
    }

    #[test]
    fn what_arrives_at_the_same_cores_has_one_letter() {
        let map = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let host = Fingerprint {
            interrupts: map(&[("60 eth0-rx-0", "0"), ("61 eth0-rx-1", "1"), ("62 eth1-rx-0", "0")]),
            queues: map(&[("eth0/rx-0", "rps_cpus 3, rps_flow_cnt 0"), ("eth0/rx-1", "rps_cpus 0")]),
            ..Fingerprint::default()
        };
        let arrivals = Arrivals::from_host(&host);
        assert_eq!(
            (arrivals.at(0), arrivals.at(1)),
            (vec!["a".into(), "b".into()], vec!["b".into(), "c".into()])
        );
        assert_eq!(arrivals.letters()[0].1, "on 0: interrupt 60 eth0-rx-0, interrupt 62 eth1-rx-0");
        assert_eq!((letter(25), letter(26), letter(701)), ("z".into(), "aa".into(), "zz".into()));
    }
}
