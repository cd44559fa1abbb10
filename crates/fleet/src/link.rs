//! The controller's side of the conversation with one agent. The link starts the agent, knows whether it lives, and
//! asks it for jobs. Nothing waits without a limit. Three threads serve a link: one reads, one writes, and one keeps
//! what standard error says.

mod greeting;
mod inbox;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use kqps_kernel::interrupts::Interrupts;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clock::{self, Offset, Ping};
use crate::error::HostsError;
use crate::host::Host;
use crate::identity::Identity;
use crate::message::{self, ALIVE, AgentHello, ControllerHello, Done, HelloFacts, LINE_MOST, ToAgent};
use crate::outbox::Unsent;
use crate::remote::{ProgramState, Remote};
use crate::serve::ENDED_WITHIN;
use crate::{command, reason};
use inbox::{Inbox, Raw};

/// The time within which an agent must answer the first line.
const HELLO_WITHIN: Duration = Duration::from_secs(20);

/// A host from which nothing came for so long is lost. An agent sends a line each second. If the link is down in both
/// directions, the agent has ended by then.
const SILENCE: Duration = ENDED_WITHIN;

/// The pings of an offset.
const PINGS: u32 = 64;

/// The time within which all pings of an offset must be answered.
const PINGS_WITHIN: Duration = Duration::from_secs(10);

/// The interval at which interrupts and silence are looked for.
const LOOK: Duration = Duration::from_millis(50);

/// The time that a job may take after the user interrupted it, and after the second interrupt.
const STOP_WITHIN: Duration = Duration::from_secs(10);
const URGENT_WITHIN: Duration = Duration::from_secs(2);

/// The time that an agent may take to end what it started.
const END_WITHIN: Duration = Duration::from_secs(5);

/// The number of last lines in an error.
const LAST_LINES: usize = 3;

/// A message to an agent that has neither a hello nor a job.
type Plain = ToAgent<(), ()>;

/// An open conversation with an agent. When the value is dropped, the agent ends: it is asked to, and after 5 s the
/// program that reaches it is killed.
#[derive(Debug)]
pub struct Link {
    host: Host,
    there: AgentHello,
    remote: Remote<Inbox>,
    last_id: u64,
}

/// A job that was asked for, by which its result is waited for.
#[derive(Debug)]
#[must_use = "the result of a job waits under its ticket"]
pub struct Ticket(u64);

/// Why a job has no result.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// The agent could not do it.
    #[error("{reason}")]
    Failed {
        /// The failure, in one sentence.
        reason: String,
        /// The last lines that the job's programs printed.
        output: Vec<String>,
    },
    /// The host was lost, or speaks another protocol.
    #[error(transparent)]
    Lost(HostsError),
    /// The job took too long. The agent was asked to stop it.
    #[error("the job did not end in time")]
    Late,
    /// The user interrupted it. The agent was asked to stop it.
    #[error("interrupted by the user")]
    Interrupted,
}

impl Link {
    /// Starts the agent of a host, and checks that it is the same build of kqps as `ours`. Waits 20 s at most.
    pub fn open(host: &Host, ours: &Identity, facts: &HelloFacts) -> Result<Self, HostsError> {
        Self::open_heeding(&Interrupts::default(), host, ours, facts)
    }

    /// As [`Link::open`], and waits no longer once the user interrupts, which is an error too.
    pub fn open_heeding(
        interrupts: &Interrupts,
        host: &Host,
        ours: &Identity,
        facts: &HelloFacts,
    ) -> Result<Self, HostsError> {
        Self::open_within(HELLO_WITHIN, interrupts, host, ours, facts)
    }

    fn open_within(
        within: Duration,
        interrupts: &Interrupts,
        host: &Host,
        ours: &Identity,
        facts: &HelloFacts,
    ) -> Result<Self, HostsError> {
        let until = Instant::now() + within;
        let remote = command::agent(host)
            .and_then(|command| Remote::start(command, Inbox::default(), Some(ALIVE)))
            .map_err(|error| reason::not_started(host, error))?;
        let hello = ControllerHello::new(ours, facts);
        // If it has ended, its last words say why.
        let _ = remote.send(message::plain_line(&ToAgent::<_, ()>::Hello(&hello)));
        let mut look = |known: &mut ProgramState<Inbox>| {
            let hello = known.collected.take_hello();
            (hello.is_some() || known.is_over).then_some(hello)
        };
        let came = loop {
            let came = remote.wait_for(until.min(Instant::now() + LOOK), &mut look);
            if came.is_some() || Instant::now() >= until {
                break came;
            }
            if interrupts.is_asked() {
                let reason = "the user ended the run before it answered".into();
                return Err(HostsError::Lost { host: host.name.clone(), reason });
            }
        };
        let there = match came {
            Some(Some(hello)) => greeting::accept(&host.name, ours, &hello)?,
            Some(None) => return Err(why_over(host, &remote)),
            None => {
                let said = remote.look(|known| known.said());
                let said = said.last().map(|last| format!(": {last}")).unwrap_or_default();
                let within_s = within.as_secs();
                return Err(HostsError::Silent { host: host.name.clone(), within_s, said });
            }
        };
        Ok(Self { host: host.clone(), there, remote, last_id: 0 })
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The hello of the agent, which describes it.
    pub fn there(&self) -> &AgentHello {
        &self.there
    }

    /// The last lines that came from the host beside messages, 20 at most.
    pub fn said(&self) -> Vec<String> {
        self.remote.last_words()
    }

    /// The offset of the host's monotonic clock from ours, by 64 pings.
    pub fn offset(&mut self) -> Result<Offset, HostsError> {
        self.offset_by(PINGS)
    }

    /// The offset of the host's monotonic clock from ours, by so many pings, one after another.
    pub fn offset_by(&mut self, pings: u32) -> Result<Offset, HostsError> {
        let until = Instant::now() + PINGS_WITHIN;
        self.remote.look(|known| known.collected.forget_pongs());
        let mut seen = Vec::new();
        for _ in 0..pings {
            let id = self.next_id();
            let sent_ns = Arc::new(AtomicU64::new(0));
            self.remote.look(|known| known.collected.expect_pong(id));
            let line = message::plain_line(&Plain::Ping { id });
            let sent = self.remote.outbox().send_stamped(line, Arc::clone(&sent_ns));
            sent.map_err(|unsent| self.unsent(unsent))?;
            let pong = self.await_until(until, |inbox| inbox.pong(id))?;
            // Pings that were answered so far may be enough.
            let Some((at_ns, received_ns)) = pong else { break };
            seen.push(Ping { sent_ns: sent_ns.load(SeqCst), at_ns, received_ns });
        }
        clock::estimate(&seen).ok_or_else(|| self.lost("it answers no pings".into()))
    }

    /// Asks for a job, and does not wait for it. An agent does its jobs one after another.
    pub fn ask<J: Serialize>(&mut self, job: &J) -> Result<Ticket, HostsError> {
        if let Some(reason) = self.is_lost() {
            return Err(self.lost(reason));
        }
        let id = self.next_id();
        let host = || self.host.name.clone();
        let line = message::line(&ToAgent::<(), _>::Ask { id, job })
            .map_err(|error| HostsError::Unwritable { host: host(), what: error.to_string() })?;
        if line.len() > LINE_MOST {
            return Err(HostsError::TooLong { host: host(), bytes: line.len() });
        }
        self.remote.look(|known| known.collected.expect(id));
        match self.remote.send(line) {
            Ok(()) => Ok(Ticket(id)),
            Err(unsent) => {
                self.remote.look(|known| known.collected.forget(id));
                Err(self.unsent(unsent))
            }
        }
    }

    /// Asks the agent to end a job early. Its result is still waited for by [`Link::wait`].
    pub fn ask_to_stop(&self, ticket: &Ticket) {
        self.stop(ticket.0, false);
    }

    /// Waits for the result of a job until `until`, and passes the user's interrupts on. A job without a result by then
    /// is stopped.
    #[allow(clippy::needless_pass_by_value)] // a ticket is for one wait
    pub fn wait<D: DeserializeOwned>(
        &mut self,
        ticket: Ticket,
        until: Instant,
        interrupts: &Interrupts,
    ) -> Result<D, JobError> {
        let Ticket(id) = ticket;
        let mut until = until;
        let mut stops = 0;
        loop {
            let asked = u8::from(interrupts.is_asked()) + u8::from(interrupts.is_urgent());
            if asked > stops {
                stops = asked;
                self.stop(id, asked > 1);
                let within = if asked > 1 { URGENT_WITHIN } else { STOP_WITHIN };
                until = until.min(Instant::now() + within);
            }
            let slice = until.min(Instant::now() + LOOK);
            match self.await_until(slice, |inbox| inbox.result(id)) {
                Ok(Some(_)) if stops > 0 => return Err(JobError::Interrupted),
                Ok(Some(done)) => return self.result(done),
                Ok(None) if Instant::now() < until => {}
                Ok(None) => {
                    self.remote.look(|known| known.collected.forget(id));
                    if stops > 0 {
                        return Err(JobError::Interrupted);
                    }
                    self.stop(id, true);
                    return Err(JobError::Late);
                }
                Err(error) => {
                    self.remote.look(|known| known.collected.forget(id));
                    return Err(JobError::Lost(error));
                }
            }
        }
    }

    /// Why nothing more will come from the host, in words with its last lines; `None` while it lives.
    pub fn is_lost(&self) -> Option<String> {
        let over = self.remote.look(|known| {
            let exit = known.exit.map(|exit| format!(" ({exit})")).unwrap_or_default();
            let fault = known.fault.as_ref().map(|fault| format!("it was ended, since it sent {fault}"));
            fault.or_else(|| known.is_over.then(|| format!("its connection ended{exit}")))
        });
        let silence = || {
            let is_silent = self.remote.silence() > SILENCE;
            is_silent.then(|| format!("nothing came from it for {} s", SILENCE.as_secs()))
        };
        let reason = over.or_else(silence)?;
        let said = self.remote.last_words();
        let last = said[said.len().saturating_sub(LAST_LINES)..].join("; ");
        Some(if last.is_empty() { reason } else { format!("{reason}: {last}") })
    }

    /// Waits until `look` finds something in the inbox. `None` from `until` on, an error once the host is lost.
    fn await_until<R>(
        &self,
        until: Instant,
        mut look: impl FnMut(&mut Inbox) -> Option<R>,
    ) -> Result<Option<R>, HostsError> {
        loop {
            let slice = until.min(Instant::now() + LOOK);
            // Messages from before the end count.
            let seen = self.remote.wait_for(slice, |known| match look(&mut known.collected) {
                Some(found) => Some(Some(found)),
                None => known.is_over.then_some(None),
            });
            if let Some(Some(found)) = seen {
                return Ok(Some(found));
            }
            if let Some(reason) = self.is_lost() {
                return Err(self.lost(reason));
            }
            if Instant::now() >= until {
                return Ok(None);
            }
        }
    }

    /// Asks the agent to stop a job.
    fn stop(&self, id: u64, urgent: bool) {
        // An agent that cannot be written to is lost soon.
        let _ = self.remote.send(message::plain_line(&Plain::Stop { id, urgent }));
    }

    fn result<D: DeserializeOwned>(&self, done: Done<Raw>) -> Result<D, JobError> {
        if let Some(reason) = done.error {
            return Err(JobError::Failed { reason, output: done.output });
        }
        let text = done.ok.as_ref().map_or("null", |ok| ok.get());
        serde_json::from_str(text).map_err(|error| {
            let what = format!("the result {}: {error}", message::shown(text.as_bytes()));
            JobError::Lost(HostsError::Nonsense { host: self.host.name.clone(), what })
        })
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn lost(&self, reason: String) -> HostsError {
        HostsError::Lost { host: self.host.name.clone(), reason }
    }

    fn unsent(&self, unsent: Unsent) -> HostsError {
        match unsent {
            Unsent::Full(queued) => HostsError::Blocked { host: self.host.name.clone(), queued },
            Unsent::Closed => self.lost(self.is_lost().unwrap_or_else(|| "it takes nothing any more".into())),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.is_lost().is_none() && self.remote.send(message::plain_line(&Plain::End {})).is_ok() {
            self.remote.outbox().close();
            self.remote.wait_for(Instant::now() + END_WITHIN, |known| known.is_over.then_some(()));
        }
        // Dropping the remote part kills what is left.
    }
}

/// Why the program that reaches a host is over, when no hello came.
fn why_over(host: &Host, remote: &Remote<Inbox>) -> HostsError {
    let said = remote.last_words();
    let (exit, fault) = remote.look(|known| (known.exit, known.fault.take()));
    match fault {
        Some(what) => HostsError::Nonsense { host: host.name.clone(), what },
        None => reason::of_end(host, exit, &said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Words;
    use crate::message::Role;

    #[test]
    fn a_silent_host_is_not_waited_for_without_a_limit() {
        let reach = ["sh", "-c", "echo waking up; exec sleep 60"].map(str::to_owned).to_vec();
        let host =
            Host::from_words(Words { name: "ns1", reach, data: "192.0.2.1", ..Words::default() }).unwrap();
        let ours = Identity {
            version: "1".into(),
            schema: 4,
            blake3: "ab".into(),
            arch: std::env::consts::ARCH.into(),
        };
        let facts = HelloFacts { targets: Vec::new(), role: Role::Player, name: "ns1".into() };
        let interrupts = Interrupts::default();
        let open = || {
            let within = Duration::from_secs(1);
            Link::open_within(within, &interrupts, &host, &ours, &facts).unwrap_err().to_string()
        };
        assert_eq!(open(), "ns1 did not answer within 1 s: waking up");
        interrupts.ask();
        assert!(open().contains("the user ended the run"), "it is waited for no longer");
    }
}
