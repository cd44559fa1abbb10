//! The queries of void trials. They leave no record, and the run prints what each player sent in them.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

/// Words that a run prints before the counts of the players of a void trial.
const VOID: &str = "a trial is void, since ";
const COUNTS: &str = "; queries in it: ";

/// Queries by the host of their player.
pub(super) type VoidQueries = BTreeMap<String, u64>;

/// The queries of all void trials of a run that printed this.
pub(super) fn queries(printed: &str) -> Result<VoidQueries> {
    let mut all = VoidQueries::new();
    for line in printed.lines().filter(|line| line.contains(VOID)) {
        let (_, counts) = line.rsplit_once(COUNTS).with_context(|| format!("{line} has no counts"))?;
        for of_player in counts.split(", ") {
            let read = of_player.split_once(" sent ");
            let (host, count) = read.with_context(|| format!("what players sent is unknown: {line}"))?;
            let count: u64 = count.parse().with_context(|| format!("{line} has a wrong count"))?;
            *all.entry(host.to_owned()).or_default() += count;
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queries_of_void_trials_are_summed_up_by_player() {
        let of = |counts| {
            format!(
                "block 1/2\na trial is void, since the player on p2 began late; queries in it: {counts}\n"
            )
        };
        let printed = of("p1 sent 4000, p2 sent 3996") + &of("p1 sent 2");
        let read = queries(&printed).unwrap();
        assert_eq!(read, [("p1".to_owned(), 4_002), ("p2".to_owned(), 3_996)].into());
        assert!(queries(&of("p1 sent 4000, p2 left no account")).is_err());
        assert_eq!(queries("block 1/2\n").unwrap(), VoidQueries::new());
    }
}
