//! All values of a device's settings, as ethtool and the kernel's files show them.

use anyhow::{Result, ensure};

use super::console::Guest;

/// The values of a device's settings, line by line.
pub(super) struct Values {
    device: &'static str,
    text: String,
}

impl Values {
    /// The present values.
    pub(super) fn read(guest: &mut Guest, device: &'static str) -> Result<Self> {
        let text = guest.read(&format!("values {device}"))?;
        for wanted in ["ethtool -k: Features for", "queues/rx-0/rps_cpus: ", "irq ", "net/core/rmem_max: "] {
            ensure!(text.contains(wanted), "the values of {device} have no line with {wanted:?}:\n{text}");
        }
        Ok(Self { device, text })
    }

    /// An error with the lines that differ, if the values are no longer these.
    pub(super) fn are_back(&self, guest: &mut Guest) -> Result<()> {
        let now = Self::read(guest, self.device)?;
        let differing = differing(&self.text, &now.text);
        ensure!(differing.is_empty(), "{} is not as it was:\n{}", self.device, differing.join("\n"));
        Ok(())
    }

    /// How many lines have another value now.
    pub(super) fn changed(&self, guest: &mut Guest) -> Result<usize> {
        let now = Self::read(guest, self.device)?;
        Ok(differing(&self.text, &now.text).iter().filter(|line| line.starts_with('+')).count())
    }
}

/// The lines that only one of two texts has: `-` before those of the first, `+` before those of the second.
fn differing(one: &str, other: &str) -> Vec<String> {
    let (one, other): (Vec<&str>, Vec<&str>) = (one.lines().collect(), other.lines().collect());
    let gone = one.iter().filter(|line| !other.contains(line)).map(|line| format!("- {line}"));
    let new = other.iter().filter(|line| !one.contains(line)).map(|line| format!("+ {line}"));
    let differing: Vec<String> = gone.chain(new).collect();
    // Equal lines in another order, or in another number, differ too.
    if differing.is_empty() && one != other {
        return vec!["the same lines stand in another order".into()];
    }
    differing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_counts_and_its_place() {
        assert_eq!(differing("a: 1\nb: 2\n", "a: 1\nb: 2\n"), [] as [&str; 0]);
        assert_eq!(differing("a: 1\nb: 2\n", "a: 1\nb: 3\n"), ["- b: 2", "+ b: 3"]);
        assert_eq!(differing("a\nb\n", "b\na\n").len(), 1);
        assert_eq!(differing("a\na\n", "a\n").len(), 1);
    }
}
