//! The printed line of a void trial. The trial leaves no record, and its queries reached the server all the same.

use kqps_observation::Trial;

use super::member::Fault;

/// The queries that a player sent in a trial.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sent {
    /// The player's host.
    host: String,
    /// `None` if the player left no account.
    queries: Option<u64>,
}

/// Queries that each player sent, in the order of the players.
pub(super) fn sent<'a>(
    hosts: impl Iterator<Item = &'a String>,
    played: &[Result<Trial, Fault>],
) -> Vec<Sent> {
    let queries = played.iter().map(|one| one.as_ref().ok().map(|trial| trial.accounts.sent));
    hosts.zip(queries).map(|(host, queries)| Sent { host: host.clone(), queries }).collect()
}

/// The line about a void trial: which host spoiled it and how, and what each player sent.
pub(super) fn words(why: &str, sent: &[Sent]) -> String {
    let of_each = sent.iter().map(|Sent { host, queries }| match queries {
        Some(queries) => format!("{host} sent {queries}"),
        None => format!("{host} left no account"),
    });
    let of_each: Vec<String> = of_each.collect();
    format!("a trial is void, since {why}; queries in it: {}", of_each.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_void_trial_names_the_player_and_what_each_sent() {
        let mut trial = Trial::default();
        trial.accounts.sent = 4_000;
        let hosts = ["p1".to_owned(), "p2".to_owned()];
        let sent = sent(hosts.iter(), &[Ok(trial), Err(Fault::Late)]);
        assert_eq!(
            words("the player on p2 was lost: no answer", &sent),
            "a trial is void, since the player on p2 was lost: no answer; queries in it: p1 sent 4000, p2 left no account"
        );
    }
}
