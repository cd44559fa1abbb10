//! The permission of an agent, as the controller's hello grants it: jobs of one role, and loads at the named targets.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use kqps_fleet::Role;

use super::job::Job;

/// The permission of one agent. Without a hello there is none. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Permission(Arc<OnceLock<Granted>>);

#[derive(Debug)]
struct Granted {
    role: Role,
    targets: BTreeSet<IpAddr>,
}

impl Permission {
    /// Permits the jobs of a role, and loads at these addresses, for the rest of the agent's life. Fails the second
    /// time.
    pub fn grant(&self, role: Role, targets: &[IpAddr]) -> Result<(), String> {
        let targets = targets.iter().map(IpAddr::to_canonical).collect();
        self.0.set(Granted { role, targets }).map_err(|_| "a controller has said hello already".to_owned())
    }

    /// The role of this agent; an error before the hello.
    pub(super) fn role(&self) -> Result<Role, String> {
        self.granted().map(|granted| granted.role)
    }

    /// Refuses jobs of the other role, and loads at other targets.
    pub(super) fn check(&self, job: &Job) -> Result<(), String> {
        let granted = self.granted()?;
        match role_of(job) {
            Some(Role::Server) if granted.role == Role::Player => {
                return Err("this agent is a player's, and starts and watches no subject".into());
            }
            Some(Role::Player) if granted.role == Role::Server => {
                return Err("this agent is the server's, and plays no load".into());
            }
            _ => {}
        }
        let Job::Play { request, .. } = job else { return Ok(()) };
        // The classes of a scenario that kqps has go to the targets of the good clients.
        if !request.classes.is_empty()
            || request.scenario.as_ref().is_some_and(|scenario| !scenario.can_be_shared())
        {
            return Err(
                "this agent plays no classes of clients but those of scenarios that hosts can share".into()
            );
        }
        if request.plan.hostile.is_some() {
            return Err("this agent plays no attackers: they are played by one host".into());
        }
        let mut targets = request.plan.targets.iter().map(|target| target.ip().to_canonical());
        match targets.find(|ip| !granted.targets.contains(ip)) {
            None => Ok(()),
            Some(ip) => {
                Err(format!("{ip} is none of the targets in the hosts' file, and nothing else may be loaded"))
            }
        }
    }

    fn granted(&self) -> Result<&Granted, String> {
        self.0.get().ok_or_else(|| "no controller has said hello".into())
    }
}

/// The role that a job needs; `None` for jobs of both.
fn role_of(job: &Job) -> Option<Role> {
    match job {
        Job::Facts { .. }
        | Job::Have { .. }
        | Job::Put { .. }
        | Job::Materials { .. }
        | Job::Set { .. }
        | Job::Unset => None,
        Job::Start(_)
        | Job::Stop { .. }
        | Job::WatchBegin { .. }
        | Job::WatchAgain { .. }
        | Job::WatchSent
        | Job::WatchEnd
        | Job::CpuTime { .. } => Some(Role::Server),
        Job::Play { .. } => Some(Role::Player),
    }
}

#[cfg(test)]
mod tests {
    use kqps_host::SubjectWatched;
    use kqps_observation::run::Purpose;

    use super::*;
    use crate::agent::job::Queries;
    use kqps_player::plan::Hostile;
    use kqps_testbed::attack::{OpenRate, PlayScenario};
    use kqps_testbed::materials::{MaterialsSpec, QueriesKind};
    use kqps_testbed::play::{PlayClass, PlayRequest, QueryFile};
    use kqps_testbed::player_setup::PlayerSetup;
    use kqps_testbed::trial_request::{RequestedPace, TrialRequest};

    fn play(target: &str) -> Job {
        play_with(target, |_| {})
    }

    /// A job that plays at a target, with changes to its request.
    fn play_with(target: &str, change: impl FnOnce(&mut PlayRequest)) -> Job {
        let request = TrialRequest { pace: RequestedPace::Closed, duration_s: 1.0, purpose: Purpose::Search };
        let targets = [target.parse().unwrap()];
        let subject = SubjectWatched::default();
        let plan = PlayerSetup::many_flows().plan(&request, (&targets, None), &[], &subject).unwrap();
        let queries = QueryFile::new("".as_ref());
        let mut request = PlayRequest {
            plan,
            queries,
            classes: Vec::new(),
            scenario: None,
            is_allowed: true,
            subject,
            shows_bar: false,
            live_every: None,
        };
        change(&mut request);
        let queries = Queries { wanted: MaterialsSpec::default(), kind: QueriesKind::Plain };
        Job::Play { request: Box::new(request), queries, at_ns: None }
    }

    #[test]
    fn nothing_is_permitted_before_the_hello_and_one_hello_counts() {
        let permission = Permission::default();
        let address = "192.0.2.1".parse().unwrap();
        let facts = Job::Facts { address, sources: Vec::new(), device: None };
        assert!(permission.check(&facts).unwrap_err().contains("hello"));
        permission.grant(Role::Player, &["192.0.2.1".parse().unwrap()]).unwrap();
        assert!(permission.clone().grant(Role::Server, &[]).is_err());
        assert_eq!(permission.role(), Ok(Role::Player));
        assert_eq!(permission.check(&facts), Ok(()));
    }

    #[test]
    fn a_player_plays_at_the_named_targets_alone() {
        let permission = Permission::default();
        permission.grant(Role::Player, &["192.0.2.1".parse().unwrap()]).unwrap();
        assert_eq!(permission.check(&play("192.0.2.1:53")), Ok(()));
        assert_eq!(permission.check(&play("[::ffff:192.0.2.1]:53")), Ok(()), "the same address");
        for other in ["192.0.2.2:53", "127.0.0.1:53", "[2001:db8::1]:53"] {
            assert!(permission.check(&play(other)).unwrap_err().contains("none of the targets"), "{other}");
        }
        assert!(permission.check(&Job::WatchSent).unwrap_err().contains("a player's"));
        let server = Permission::default();
        server.grant(Role::Server, &["192.0.2.1".parse().unwrap()]).unwrap();
        assert!(server.check(&play("192.0.2.1:53")).unwrap_err().contains("the server's"));
    }

    #[test]
    fn a_player_plays_scenarios_that_kqps_has_and_no_others() {
        let permission = Permission::default();
        permission.grant(Role::Player, &["192.0.2.1".parse().unwrap()]).unwrap();
        let refused =
            |change: fn(&mut PlayRequest)| permission.check(&play_with("192.0.2.1:53", change)).unwrap_err();
        let beside = refused(|request| {
            request.classes.push(PlayClass {
                name: "attack".into(),
                plan: request.plan.clone(),
                queries: request.queries.clone(),
                edns_options: Vec::new(),
                is_sought: false,
            });
        });
        assert!(beside.contains("plays no classes of clients"), "{beside}");
        let play_scenario = |scenario: &str| {
            let scenario = PlayScenario { scenario: scenario.into(), rate: OpenRate::Named, speed: 1.0 };
            permission.check(&play_with("192.0.2.1:53", |request| request.scenario = Some(scenario.clone())))
        };
        for word in ["my.toml", "handshakes=5k", "idle-connections=5k", "rapid-reset=5k", "few-sources=5k"] {
            let refused = play_scenario(word).unwrap_err();
            assert!(refused.contains("plays no classes of clients"), "{word}: {refused}");
        }
        assert_eq!(play_scenario("one-name=5k"), Ok(()));
        let attackers = refused(|request| request.plan.hostile = Some(Hostile::Idle));
        assert!(attackers.contains("plays no attackers"), "{attackers}");
    }
}
