//! Attackers in the words of a load: what they did, and what the server did to them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kqps_observation::trial::ClassTrial;
use kqps_observation::{HandshakesMade, HostileConnections, HostileFacts, StreamsReset, Trial};
use kqps_testbed::words::counted;
use kqps_verdict::rate::plain;

use super::{causes, line, times};

/// The lines of a load of attackers alone, in place of those of queries.
pub(super) fn attackers(trial: &Trial, facts: &HostileFacts) -> String {
    let mut text = String::from("Attackers:\n\n");
    text += &lines(trial, facts);
    text += "\nLoad:\n\n";
    let load = &trial.load;
    let rate = format!(
        "{} attempts/s{}, arrivals {}, for {:.3} s",
        plain(load.intended_qps.unwrap_or(0.0)),
        load.course
            .as_ref()
            .map_or_else(String::new, |course| { format!(" on average, {} at most", plain(course.peak())) }),
        load.arrivals.as_deref().unwrap_or("even"),
        load.duration_s
    );
    line(&mut text, "Load", &rate);
    let player = &trial.players.first;
    let places = format!("{} at most", counted(player.sockets.into(), "connection"));
    line(
        &mut text,
        "Player",
        &format!("{}, {}, {places}", player.io, counted(player.threads.into(), "thread")),
    );
    for note in &player.notes {
        line(&mut text, "Note", note);
    }
    line(&mut text, "Player CPU", &format!("{:.2} s", player.cpu_s));
    text
}

/// A block for each class of attackers.
pub(super) fn by_class(classes: &[ClassTrial]) -> String {
    let mut text = String::new();
    for ClassTrial { name, trial, .. } in classes {
        if let Some(facts) = &trial.hostile {
            let _ = write!(text, "\nAttackers of the class {name}:\n\n{}", lines(trial, facts));
        }
    }
    text
}

fn lines(trial: &Trial, facts: &HostileFacts) -> String {
    let HostileFacts { kind, due, begun, unsent, connections, bytes_sent, .. } = facts;
    let mut text = String::new();
    line(&mut text, "Kind", &format!("{} over {}", kind.word(), trial.transport.word()));
    let sum = facts.unsent_in_all();
    line(&mut text, "Attempts", &format!("due {due} = begun {begun} + unsent {sum}{}", named(unsent)));
    if let Some(StreamsReset { begun, reset, cut_off }) = facts.streams {
        line(&mut text, "Streams", &format!("begun {begun} = opened and reset {reset} + cut off {cut_off}"));
    }
    text += &connection_lines(connections);
    if let Some(HandshakesMade { begun, done, failed, under_way }) = &facts.handshakes {
        let sum: u64 = failed.values().sum();
        let of_tls =
            format!("begun {begun} = done {done} + failed {sum}{} + under way {under_way}", named(failed));
        line(&mut text, "Handshakes", &of_tls);
    }
    if facts.initials > 0 {
        line(&mut text, "Initials", &format!("{} sent", counted(facts.initials, "datagram")));
    }
    line(&mut text, "Sent", &counted(*bytes_sent, "byte"));
    line(&mut text, "Received", &causes(&facts.replies));
    if !facts.goaways.is_empty() {
        line(&mut text, "GOAWAY", &causes(&facts.goaways));
    }
    times(&mut text, "Lived (µs)", &facts.lived_us);
    text
}

fn connection_lines(connections: &HostileConnections) -> String {
    let HostileConnections { begun, connected, refused, timed_out, failed, connecting, .. } = connections;
    let HostileConnections { closed_by_server, reset_by_server, broken, closed_by_player, held, .. } =
        connections;
    let mut text = String::new();
    let sum: u64 = failed.values().sum();
    let made = format!(
        "begun {begun} = connected {connected} + refused {refused} + timed out {timed_out} + failed {sum}{} + \
         connecting {connecting}",
        named(failed)
    );
    line(&mut text, "Connections", &made);
    if *connected > 0 {
        let sum: u64 = broken.values().sum();
        let ended = format!(
            "connected {connected} = closed by the server {closed_by_server} + reset by it {reset_by_server} + broken \
             {sum}{} + closed by the player {closed_by_player} + held at the end {held}",
            named(broken)
        );
        line(&mut text, "Ended", &ended);
    }
    text
}

/// Counts by cause behind their sum; nothing without any.
fn named(counts: &BTreeMap<String, u64>) -> String {
    if counts.is_empty() { String::new() } else { format!(" ({})", causes(counts)) }
}

#[cfg(test)]
mod tests {
    use kqps_catalogue::Hostile;
    use kqps_observation::trial::Transport;

    use super::*;

    #[test]
    fn every_identity_is_a_line() {
        let counts =
            |pairs: &[(&str, u64)]| pairs.iter().map(|(name, count)| ((*name).into(), *count)).collect();
        let facts = HostileFacts {
            kind: Hostile::Handshake,
            due: 5,
            begun: 4,
            unsent: counts(&[("room", 1)]),
            connections: HostileConnections {
                begun: 4,
                connected: 3,
                refused: 1,
                closed_by_server: 1,
                held: 2,
                ..HostileConnections::default()
            },
            handshakes: Some(HandshakesMade {
                begun: 3,
                done: 2,
                failed: counts(&[("closed", 1)]),
                under_way: 0,
            }),
            bytes_sent: 900,
            ..HostileFacts::default()
        };
        let trial = Trial { transport: Transport::Tls, hostile: Some(facts.clone()), ..Trial::default() };
        let text = attackers(&trial, &facts);
        for wanted in [
            " handshake over tls\n",
            " due 5 = begun 4 + unsent 1 (1 room)\n",
            " begun 4 = connected 3 + refused 1 + timed out 0 + failed 0 + connecting 0\n",
            "connected 3 = closed by the server 1 + reset by it 0 + broken 0 + closed by the player 0 + held at the end 2\n",
            " begun 3 = done 2 + failed 1 (1 closed) + under way 0\n",
            " 900 bytes\n",
        ] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        let class = ClassTrial { name: "bots".into(), trial, ..ClassTrial::default() };
        assert!(by_class(&[class]).starts_with("\nAttackers of the class bots:\n\n  Kind:"));
        assert_eq!(by_class(&[ClassTrial::default()]), "");
    }
}
