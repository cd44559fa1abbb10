//! The bottleneck, from facts that show it.

use kqps_observation::host::CpuFacts;
use kqps_observation::trial::{ClassTrial, UNSENT_CONNECTIONS, UNSENT_IDS};
use kqps_observation::{CoreGauge, GaugeFacts, Place, SpeedFacts, StallFacts, Trial};
use kqps_verdict::bottleneck::{Bottleneck, PlayerLack, Resource, bottleneck};
use kqps_verdict::warning::player_limited;

use super::facts::{place, starved, subject_busy, trial};

fn bottleneck_in(trials: &[Trial]) -> Bottleneck {
    bottleneck(trials)
}

#[test]
fn a_full_thread_of_the_subject_is_named() {
    let mut full = trial(250e3, 30_000);
    subject_busy(&mut full, 0.98);
    let found = bottleneck_in(&[full.clone(), full]);
    assert_eq!(found.resource, Resource::SubjectCpu);
    assert_eq!(found.to_string(), "the subject's CPU (its busiest thread, server 101, was 98 % busy)");
}

#[test]
fn a_full_thread_is_named_though_every_start_has_threads_of_its_own() {
    let mut starts = Vec::new();
    for start in 0..6 {
        let mut full = trial(250e3, 30_000);
        subject_busy(&mut full, 0.97);
        for thread in &mut full.subject.as_mut().unwrap().threads {
            thread.tid += 1000 * start;
        }
        starts.extend([full.clone(), full]);
    }
    let found = bottleneck_in(&starts);
    assert_eq!(found.resource, Resource::SubjectCpu);
    let thread = found.thread.unwrap();
    assert_eq!(thread.tid, 5101, "the last start's");
    assert!((thread.busy - 0.97).abs() < 1e-9, "{thread:?}");
}

#[test]
fn a_socket_buffer_that_overflows_while_the_cpu_has_time() {
    let found = bottleneck_in(&[trial(250e3, 30_000)]);
    assert_eq!(found.resource, Resource::SubjectSocketBuffer);
    assert_eq!(found.share_of_bad, Some(1.0));
    let mut watched = trial(250e3, 30_000);
    watched.stalls = Some(StallFacts::default());
    assert_eq!(bottleneck_in(&[watched]).resource, Resource::SubjectStill, "its core was free");
}

#[test]
fn packets_of_all_classes_are_compared_with_the_bad_queries_of_all() {
    let class =
        |name: &str, trial: Trial| ClassTrial { name: name.into(), trial, is_sought: name == "attack" };
    let (mut good, attack) = (trial(250e3, 0), trial(250e3, 30_000));
    good.accounts.correct -= 100;
    good.accounts.lost += 100;
    let seen = |dropped| {
        let mut seen = good.clone();
        seen.classes = vec![class("good", good.clone()), class("attack", attack.clone())];
        place(&mut seen, Place::SubjectSocketBuffer, dropped);
        bottleneck_in(&[seen])
    };
    assert_eq!(seen(100).resource, Resource::NoneSaturated, "30,000 were lost elsewhere");
    let found = seen(30_100);
    assert_eq!((found.resource, found.share_of_bad), (Resource::SubjectSocketBuffer, Some(1.0)));
}

/// A second on cores 1 and up that are 95 % busy, 9 % of it with interrupts. The subject used `subject_s` of them. On
/// core 0, programs other than the player used half a second.
fn on_full_cores(cores: u32, subject_s: f64) -> Resource {
    let mut trial = trial(250e3, 30_000);
    trial.stalls = Some(StallFacts { cores: (1..=cores).collect(), ..StallFacts::default() });
    let core =
        |cpu| CpuFacts { cpu, user: 0.86, irq: 0.01, softirq: 0.08, idle: 0.05, ..CpuFacts::default() };
    trial.hosts.first.cpus.truncate(1);
    trial.hosts.first.cpus.extend((1..=cores).map(core));
    (trial.hosts.first.wall_s, trial.hosts.first.foreign_cpu_s) = (1.0, Some(0.5));
    let subject = trial.subject.as_mut().unwrap();
    (subject.cpu_user_s, subject.cpu_system_s) = (subject_s / 2.0, subject_s / 2.0);
    bottleneck_in(&[trial]).resource
}

#[test]
fn a_subject_whose_cores_others_have_did_not_stand_still() {
    assert_eq!(on_full_cores(1, 0.70), Resource::SubjectCoreShared);
    assert_eq!(on_full_cores(1, 0.80), Resource::SubjectCpu, "its threads share the core with one another");
    assert_eq!(on_full_cores(4, 4.0 * 0.80), Resource::SubjectCpu, "a tenth of each core is a tenth of all");
    assert_eq!(on_full_cores(4, 4.0 * 0.70), Resource::SubjectCoreShared);
}

#[test]
fn what_fails_while_the_host_changes_shows_no_limit_of_the_subject() {
    let gauge = |turns_per_s| GaugeFacts { cores: vec![CoreGauge { cpu: 1, turns_per_s, stalled_s: 0.0 }] };
    let mut shifted = trial(250e3, 30_000);
    shifted.speed = Some(SpeedFacts { before: gauge(130.0), after: gauge(100.0), ..SpeedFacts::default() });
    assert_eq!(bottleneck_in(&[shifted.clone()]).resource, Resource::Host);
    assert_eq!(bottleneck_in(&[shifted, trial(250e3, 30_000)]).resource, Resource::SubjectSocketBuffer);
}

#[test]
fn a_starved_player_is_the_bottleneck_whatever_the_subject_did() {
    let found = bottleneck_in(&[starved(250e3), starved(250e3), trial(250e3, 300)]);
    assert_eq!(found.resource, Resource::Player);
}

#[test]
fn an_idle_player_is_not_called_busy_but_said_to_lack_the_cpu() {
    let said = |change: &dyn Fn(&mut Trial)| {
        let mut starved = starved(250e3);
        change(&mut starved);
        bottleneck_in(&[starved]).to_string()
    };
    assert_eq!(said(&|_| ()), "the player, which did not get the CPU (5 % busy)");
    let core = said(&|trial| {
        trial.players.first.cpus = vec![trial.hosts.first.cpus[0].cpu];
        trial.hosts.first.cpus[0].idle = 0.0;
    });
    assert_eq!(core, "the player, whose core other work filled (100 % busy)");
    let busy = said(&|trial| trial.players.first.per_thread[0].busy = 0.99);
    assert_eq!(busy, "the player (99 % busy)");
    let with_interrupts = said(&|trial| {
        let core = &mut trial.hosts.first.cpus[0];
        (core.irq, core.softirq, core.idle) = (0.01, 0.11, 0.03);
        let cpu = core.cpu;
        trial.players.first.cpus = vec![cpu];
        (trial.players.first.per_thread[0].cpu, trial.players.first.per_thread[0].busy) = (cpu, 0.85);
    });
    assert_eq!(with_interrupts, "the player (97 % busy)", "the interrupts are for its own packets");
    let unknown = said(&|trial| {
        trial.players.first.per_thread.clear();
        trial.players.first.cpus.clear();
    });
    assert_eq!(unknown, "the player");
    // Before a player is called starved, it sent queries late. Here it sent none, since the kernel took none.
    let refused = said(&|trial| {
        (trial.accounts.unsent, trial.accounts.send_failed) = (0, trial.accounts.unsent);
        trial.lag_us.p90 = Some(10);
    });
    assert_eq!(refused, "the player, whose host refused to send its queries");
}

#[test]
fn a_player_without_free_ids_is_said_to_lack_these() {
    let mut silent = starved(250e3);
    silent.unsent_causes = [(UNSENT_IDS.to_owned(), silent.accounts.unsent)].into();
    let found = bottleneck_in(&[silent.clone()]);
    assert_eq!((found.resource, found.player_lack), (Resource::Player, Some(PlayerLack::Ids)));
    assert_eq!(found.to_string(), "the player, whose sockets had no free ID");
    let advice = player_limited(&silent).unwrap().advice;
    assert!(advice.contains("because no ID was free") && advice.contains("more sockets (-c)"), "{advice}");
    // Most queries went unanswered, so the player did not lose most of them.
    let accounts = &mut silent.accounts;
    (accounts.sent, accounts.unsent) = (accounts.intended - 25_000, 25_000);
    (accounts.lost, accounts.correct) = (accounts.sent, 0);
    silent.unsent_causes = [(UNSENT_IDS.to_owned(), 25_000)].into();
    assert_eq!(bottleneck_in(&[silent]).player_lack, Some(PlayerLack::Ids));
}

#[test]
fn one_dropped_reply_does_not_explain_a_late_player() {
    let mut late = trial(250e3, 30_000);
    (late.lag_us.p90, late.players.first.socket_drops) = (Some(48_000), 1);
    late.players.first.per_thread[0].busy = 0.05;
    late.hosts.first.cpus[0].idle = 0.95;
    assert_eq!(bottleneck_in(&[late]).player_lack, Some(PlayerLack::CpuTime));
}

#[test]
fn a_busy_player_is_named_unless_the_subject_is_busy_too() {
    let mut busy = trial(250e3, 0);
    busy.accounts.correct -= 1000;
    busy.accounts.late = 1000;
    busy.players.first.per_thread[0].busy = 0.99;
    assert_eq!(bottleneck_in(&[busy.clone()]).resource, Resource::Player);
    subject_busy(&mut busy, 0.99);
    assert_eq!(bottleneck_in(&[busy]).resource, Resource::SubjectCpu);
}

#[test]
fn replies_that_the_players_sockets_dropped_are_the_players() {
    let mut deaf = trial(250e3, 1000);
    deaf.ledger.places.clear();
    deaf.players.first.socket_drops = 1000;
    let found = bottleneck_in(&[deaf]);
    assert_eq!((found.resource, found.player_lack), (Resource::Player, Some(PlayerLack::Buffers)));
    assert_eq!(found.to_string(), "the player, whose own sockets dropped replies");
}

#[test]
fn full_places_are_the_bottleneck_if_the_subject_had_time() {
    let mut full = trial(250e3, 0);
    full.accounts.correct -= 1000;
    full.accounts.sent -= 1000;
    full.accounts.unsent = 1000;
    full.unsent_causes = [(UNSENT_CONNECTIONS.to_owned(), 1000)].into();
    assert_eq!(bottleneck_in(&[full.clone()]).resource, Resource::Places);
    assert!(Resource::Places.is_of_player());
    let mut unwatched = full.clone();
    unwatched.subject = None;
    assert_eq!(
        bottleneck_in(&[unwatched]).resource,
        Resource::Unknown,
        "a slow subject fills all places, too"
    );
    let mut slow = full.clone();
    slow.accounts.late = 100;
    assert_eq!(
        bottleneck_in(&[slow]).resource,
        Resource::NoneSaturated,
        "replies that come late are the subject's"
    );
    subject_busy(&mut full, 0.99);
    assert_eq!(bottleneck_in(&[full]).resource, Resource::SubjectCpu);
}

#[test]
fn drops_in_the_backlog_are_the_paths() {
    let mut path = trial(250e3, 1000);
    path.ledger.places.clear();
    place(&mut path, Place::Softnet, 900);
    assert_eq!(bottleneck_in(&[path]).resource, Resource::Path);
}

#[test]
fn a_kernel_without_memory_for_packets() {
    let mut memory = trial(250e3, 1000);
    memory.hosts.first.network.udp4.mem_errors = 1000;
    assert_eq!(bottleneck_in(&[memory]).resource, Resource::Memory);
}

#[test]
fn two_hosts_in_one_network_namespace_count_its_memory_once() {
    let mut memory = trial(250e3, 1000);
    memory.ledger.places.clear();
    let host = &mut memory.hosts.first;
    host.network.udp4.mem_errors = 400;
    (host.boot_id, host.network_namespace) = (Some("a".into()), Some(7));
    memory.hosts.others = vec![memory.hosts.first.clone()];
    assert_ne!(bottleneck_in(&[memory.clone()]).resource, Resource::Memory, "400 of 1000 are not half");
    memory.hosts.others[0].network_namespace = Some(8);
    assert_eq!(bottleneck_in(&[memory]).resource, Resource::Memory);
}

#[test]
fn nothing_saturated_is_said_and_the_far_side_may_be_unknown() {
    let mut silent = trial(250e3, 1000);
    silent.ledger.places.clear();
    silent.ledger.unexplained = 1000;
    let found = bottleneck_in(&[silent.clone()]);
    assert_eq!(found.resource, Resource::NoneSaturated);
    assert!(found.to_string().contains("no capacity"), "{found}");
    let mut ended = silent.clone();
    let subject = ended.subject.as_mut().unwrap();
    (subject.alive, subject.threads) = (false, Vec::new());
    assert_eq!(
        bottleneck_in(&[ended]).resource,
        Resource::Unknown,
        "nothing is known of a subject that has ended"
    );
    silent.subject = None;
    assert_eq!(bottleneck_in(&[silent]).resource, Resource::Unknown);
    let none = bottleneck_in(&[]);
    assert_eq!(none.resource, Resource::Unknown);
    assert_eq!(none.to_string(), "unknown: no trial showed what gave way");
}
