//! A server that runs already, as events act on it. kqps knows its processes, and from their program which signal
//! makes it read its zones again. All else the event itself says.

use super::family::{self, Running, RunningFamily};
use super::over::Over;
use super::stage::{Actor, Family};
use super::{Control, ControlSignal};
use crate::subject::builtin;

/// A server that kqps did not start.
#[derive(Clone, Debug, Default)]
pub struct RunningServer {
    /// Its first processes.
    processes: Vec<Running>,
    /// Why its processes are not known, if they were searched for.
    unknown: Option<String>,
    /// The name of its program; empty if it is not known.
    program: String,
    /// The signal by which the program reads its zones again, if kqps knows the program. It is read before the load, since
    /// that takes a while.
    reload_signal: Option<ControlSignal>,
}

impl RunningServer {
    /// The server with these processes, none of which descends from another. `unknown` is why there are none.
    pub fn new(pids: &[u32], unknown: Option<&str>) -> Self {
        let program = pids.first().and_then(|pid| kqps_host::program(*pid)).unwrap_or_default();
        let processes = pids.iter().copied().map(Running::new).collect();
        let reload_signal = reload_signal(&program);
        Self { processes, unknown: unknown.map(str::to_owned), program, reload_signal }
    }
}

/// The signal by which a program reads its zones again, if kqps knows the program.
fn reload_signal(program: &str) -> Option<ControlSignal> {
    let known = builtin::servers();
    // Some definitions start their server by a script. Not every process that runs a shell is such a server.
    let is_it = |of_server: &String| of_server == program && program != "bash";
    let definition = known.iter().find(|server| server.programs.iter().any(is_it))?;
    definition.control.get(&Control::Reload)?.signal
}

impl Actor for RunningServer {
    fn check_first(&self) -> Result<(), String> {
        if self.processes.is_empty() {
            let why = self.unknown.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
            return Err(format!(
                "kqps does not know the server's process{why}: name it with --subject-pid, such as that of `pgrep -o \
                 nsd`"
            ));
        }
        let pids: Vec<u32> = self.processes.iter().map(|one| one.pid).collect();
        if kqps_host::families(&pids).contains(&std::process::id()) {
            return Err(
                "the process that --subject-pid names started this kqps, which would stop with it: name the \
                        server's own process"
                    .into(),
            );
        }
        match self.processes.first() {
            Some(first) if first.is_left() => first.check(),
            _ => Err("the server's process has ended".into()),
        }
    }

    fn check_processes(&self) -> Result<(), String> {
        self.check_first()?;
        family::families(&self.processes).into_iter().try_for_each(Running::check)
    }

    fn check_control(&self, control: Control, zone: Option<&str>) -> Result<(), String> {
        let word = control.word();
        let how = format!(
            "add to the event how it is done: `command`, such as command = [\"my-control\", \"{word}\"], or signal = \
             \"HUP\""
        );
        self.check_first().map_err(|why| format!("{why}; or {how}"))?;
        if control == Control::Reload && zone.is_none() && self.reload_signal.is_some() {
            return Ok(());
        }
        let program = if self.program.is_empty() { "the server" } else { &self.program };
        let zone = zone.map_or_else(String::new, |zone| format!(" for the zone {zone}"));
        Err(format!("kqps does not know how {program} does that{zone}: {how}"))
    }

    fn check_restart(&self) -> Result<(), String> {
        Err("kqps did not start the server, and cannot start it again: add the command that does, such as command = \
             [\"systemctl\", \"restart\", \"nsd\"]"
            .into())
    }

    fn control(
        &self,
        control: Control,
        _zone: Option<&str>,
        _over: &Over,
        begun: &mut dyn FnMut(),
    ) -> Result<bool, String> {
        let signal = self.reload_signal.filter(|_| control == Control::Reload);
        let signal = signal.ok_or("the server's program is not known")?;
        begun();
        self.ask(signal)?;
        Ok(false)
    }

    fn ask(&self, signal: ControlSignal) -> Result<(), String> {
        let first = self.processes.first().ok_or("the server's process is not known")?;
        if first.signal(signal.signal())? { Ok(()) } else { Err(format!("process {} has ended", first.pid)) }
    }

    fn first_pids(&self) -> Vec<u32> {
        self.processes.iter().filter(|one| one.is_left()).map(|one| one.pid).collect()
    }

    fn family(&self) -> Box<dyn Family + '_> {
        Box::new(RunningFamily::new(&self.processes))
    }

    fn restart(&self) -> Result<(), String> {
        self.check_restart()
    }
}

#[cfg(test)]
mod tests {
    use kqps_observation::trial::Transport;

    use super::super::exchange::Target;
    use super::super::stage::Stage;
    use super::*;
    use crate::path::LaidPath;

    #[test]
    fn notify_needs_an_address_if_the_target_is_not_asked_by_plain_dns() {
        let server = RunningServer::default();
        let check = |transport, text: &str| {
            let target = Target::new("127.0.0.1:1".parse().unwrap(), transport, &LaidPath::Loopback).unwrap();
            let stage = Stage { actor: &server, target, zone: Some("example.".into()) };
            stage.check(&toml::from_str(&format!("at = \"0\"\ndo = \"notify\"\n{text}")).unwrap())
        };
        for transport in [Transport::Udp, Transport::Tcp] {
            assert_eq!(check(transport, ""), Ok(()));
        }
        for transport in [Transport::Tls, Transport::Https, Transport::Quic] {
            assert!(check(transport, "").unwrap_err().contains("add `to`"), "{transport:?}");
            assert_eq!(check(transport, "to = \"127.0.0.1:53\""), Ok(()));
        }
    }

    #[test]
    fn a_server_that_has_ended_cannot_be_signalled() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let server = RunningServer::new(&[child.id()], None);
        child.wait().unwrap();
        for checked in [server.check_first(), server.check_processes()] {
            assert_eq!(checked, Err("the server's process has ended".into()));
        }
        assert!(server.ask(ControlSignal::Hup).unwrap_err().contains("has ended"));
    }
}
