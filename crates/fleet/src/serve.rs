//! The agent's side of the conversation. The main thread does jobs, one after another. One thread reads, one writes,
//! and one watches that the controller lives. When the controller ends the conversation, is gone, or says nothing for
//! 3 s, the running job is interrupted, and the worker ends all that it started. The agent ends within 2 s, in any case.

mod reader;
mod session;

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use kqps_files::unfinished;
use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::process;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::HostsError;
use crate::identity::Identity;
use crate::message::{self, ALIVE, AgentHello, ControllerHello, Done, LINE_MOST, ToController};
use crate::outbox::{Outbox, STACK};
use session::{JobRequest, Over, Phase, Session};

/// The time without a line from the controller after which an agent begins to end. The controller sends a line each
/// second.
pub const LEASE: Duration = Duration::from_secs(3);

/// The time from the last line of the controller within which an agent has ended, in any case.
pub const ENDED_WITHIN: Duration = LEASE.saturating_add(session::END_WITHIN);

/// The time that the last lines may take to be written.
const WRITE_WITHIN: Duration = Duration::from_millis(500);

/// The work of an agent.
pub trait Worker {
    /// The job that it is asked for.
    type Job: DeserializeOwned;

    /// The answer to a job.
    type Done: Serialize;

    /// Does a job. An error is one sentence, and the last lines that the job's programs printed. The interrupts are
    /// those of this job. After the first it ends early, and after the second at once.
    fn work(&mut self, job: Self::Job, interrupts: &Interrupts) -> Result<Self::Done, (String, Vec<String>)>;

    /// Ends all that was started, and undoes all that was set. It is called once, after the last job, however the
    /// conversation ends, and has 2 s, less the time that the last job took to end.
    fn end(&mut self);
}

/// Serves a controller on standard input and output until the conversation ends. `check` may refuse the controller, in
/// one sentence. A worker that does not end in time is left behind by ending the process, so its children must be tied
/// to it ([`kqps_kernel::process::tie`]).
///
/// Returns an error if the controller was refused, said nothing any more, or sent what is no message.
pub fn serve(
    worker: &mut impl Worker,
    ours: &Identity,
    check: impl FnOnce(&ControllerHello) -> Result<(), String>,
) -> Result<(), HostsError> {
    let copy = |number| process::handed_down(number).map(File::from).map_err(HostsError::Agent);
    let way = Way { input: copy(0)?, output: copy(1)?, lease: LEASE, give_up };
    serve_over(way, worker, ours, check)
}

/// Ends the process, whatever its other threads do.
fn give_up() {
    unfinished::remove_all();
    std::process::exit(1);
}

/// How an agent is connected.
struct Way<I, O, G> {
    input: I,
    output: O,
    lease: Duration,
    /// Called if the worker does not end in time.
    give_up: G,
}

fn serve_over<I, O, G>(
    way: Way<I, O, G>,
    worker: &mut impl Worker,
    ours: &Identity,
    check: impl FnOnce(&ControllerHello) -> Result<(), String>,
) -> Result<(), HostsError>
where
    I: Read + Send + 'static,
    O: Write + Send + 'static,
    G: FnOnce() + Send + 'static,
{
    let Way { input, output, lease, give_up } = way;
    let (outbox, written) = Outbox::start(output, Some(ALIVE)).map_err(HostsError::Agent)?;
    let session = Arc::new(Session::new(outbox));
    start("lines", &session, move |session| reader::read(session, input)).map_err(HostsError::Agent)?;
    start("lease", &session, move |session| session.watch(lease, give_up)).map_err(HostsError::Agent)?;
    let greeted = greet(&session, ours, check);
    if greeted.is_ok() {
        while let Some(asked) = session.next() {
            answer(&session, worker, asked);
        }
    }
    session.enter(Phase::Ending);
    worker.end();
    if let Some(Over::Silent) = session.over() {
        // If the link comes back, the controller reads this.
        say(
            &session,
            format!("nothing came from the controller for {} s, so all is ended here", lease.as_secs()),
        );
    }
    session.outbox.close();
    written.wait(WRITE_WITHIN);
    session.enter(Phase::Over);
    greeted.and_then(|()| outcome(&session, lease))
}

fn start(name: &str, session: &Arc<Session>, run: impl FnOnce(&Session) + Send + 'static) -> io::Result<()> {
    let session = Arc::clone(session);
    thread::Builder::new().name(name.into()).stack_size(STACK).spawn(move || run(&session))?;
    Ok(())
}

/// Reads the controller's hello, and answers it.
fn greet(
    session: &Session,
    ours: &Identity,
    check: impl FnOnce(&ControllerHello) -> Result<(), String>,
) -> Result<(), HostsError> {
    let Some(hello) = session.hello() else {
        let what = match session.over() {
            Some(Over::Nonsense(what)) => what,
            _ => "no hello".into(),
        };
        return Err(HostsError::Nonsense { host: "the controller".into(), what });
    };
    let refused = match serde_json::from_str::<ControllerHello>(hello.get()) {
        Err(error) => Some(format!("it cannot read the controller's hello: {error}")),
        Ok(hello) if hello.identity != *ours => Some("the controller is another build of kqps".into()),
        Ok(hello) => check(&hello).err(),
    };
    let kernel = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        text.trim().to_owned()
    };
    let hostname = kernel("hostname");
    let hello = AgentHello {
        identity: ours.clone(),
        hostname: hostname.clone(),
        boot_id: kernel("random/boot_id"),
        pid: std::process::id(),
        lease_s: LEASE.as_secs(),
        refused: refused.clone(),
    };
    // A controller that reads nothing is gone, which the reader notices.
    let _ = session.outbox.send(message::plain_line(&ToController::<_, ()>::Hello(&hello)));
    match refused {
        None => Ok(()),
        Some(reason) => Err(HostsError::Refused { host: hostname, reason }),
    }
}

/// Does a job, and sends its result.
fn answer<W: Worker>(session: &Session, worker: &mut W, asked: JobRequest) {
    let JobRequest { id, job, interrupts } = asked;
    let read = serde_json::from_str::<W::Job>(job.get());
    drop(job);
    let done = match read {
        Err(error) => Err((format!("this job cannot be read: {error}"), Vec::new())),
        Ok(_) if interrupts.is_asked() => Err(("it was stopped before it began".into(), Vec::new())),
        Ok(job) => worker.work(job, &interrupts),
    };
    session.finish_job();
    let line = match done {
        Ok(done) => ok_line(id, &done).unwrap_or_else(|what| failed_line(id, what, Vec::new())),
        Err((reason, output)) => failed_line(id, reason, output),
    };
    if session.outbox.send(line).is_err() {
        session.end(Over::Closed);
    }
}

fn ok_line(id: u64, done: &impl Serialize) -> Result<Vec<u8>, String> {
    let done = Done { id, ok: Some(done), error: None, output: Vec::new() };
    let line = message::line(&ToController::<(), _>::Done(done))
        .map_err(|error| format!("the result cannot be written: {error}"))?;
    if line.len() > LINE_MOST {
        return Err(format!("the result has {} bytes, and a line has {LINE_MOST} at most", line.len()));
    }
    Ok(line)
}

fn failed_line(id: u64, reason: String, output: Vec<String>) -> Vec<u8> {
    let done = Done { id, ok: None::<()>, error: Some(reason), output };
    message::plain_line(&ToController::<(), _>::Done(done))
}

fn say(session: &Session, line: String) {
    // The controller may be gone.
    let _ = session.outbox.send(message::plain_line(&ToController::<(), ()>::Said { line }));
}

/// How the conversation ended.
fn outcome(session: &Session, lease: Duration) -> Result<(), HostsError> {
    let host = || "the controller".to_owned();
    match session.over() {
        None | Some(Over::Asked | Over::Closed) => Ok(()),
        Some(Over::Nonsense(what)) => Err(HostsError::Nonsense { host: host(), what }),
        Some(Over::Silent) => {
            let reason = format!("nothing came for {} s", lease.as_secs());
            Err(HostsError::Lost { host: host(), reason })
        }
    }
}

#[cfg(test)]
mod tests;
