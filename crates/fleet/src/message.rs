//! The lines between controller and agent: one JSON object each, in both directions.
//!
//! The controller sends `hello`, `ping`, `alive`, `ask`, `stop` and `end`. The agent sends `hello`, `pong`, `alive`,
//! `done` and `said`. Jobs and their results are any JSON.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::identity::Identity;

/// The most bytes of a line.
pub const LINE_MOST: usize = 64 << 20;

/// The line that says that a side lives. Both send it each second in which they send nothing else.
pub(crate) const ALIVE: &[u8] = b"{\"alive\":{}}\n";

/// The beginning of every `hello`.
pub(crate) const HELLO: &[u8] = b"{\"hello\":";

/// The role of a host in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It plays.
    Player,
    /// It runs the subjects.
    Server,
}

/// Facts that a controller states about itself and the agent's part, beside its identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelloFacts {
    /// The only addresses at which this agent may play.
    pub targets: Vec<IpAddr>,
    /// The role of this agent: it is asked for no job of the other role.
    pub role: Role,
    /// The agent's host, as the hosts' file names it.
    pub name: String,
}

/// The first line of a controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControllerHello {
    /// The build of the controller.
    pub identity: Identity,
    /// The only addresses at which this agent may play.
    pub targets: Vec<IpAddr>,
    /// The role of this agent: it is asked for no job of the other role.
    pub role: Role,
    /// The agent's host, as the hosts' file names it.
    pub name: String,
}

impl ControllerHello {
    pub(crate) fn new(identity: &Identity, facts: &HelloFacts) -> Self {
        let HelloFacts { targets, role, name } = facts.clone();
        Self { identity: identity.clone(), targets, role, name }
    }
}

/// The first line of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentHello {
    /// The build of the agent.
    pub identity: Identity,
    /// The name that the host has for itself; empty if it cannot be read.
    pub hostname: String,
    /// The kernel's ID of this boot of the host; empty if it cannot be read.
    pub boot_id: String,
    /// The agent's process ID there.
    pub pid: u32,
    /// The agent ends when nothing came for so many seconds.
    pub lease_s: u64,
    /// Why the agent does not work for this controller, and ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A message to an agent. `H` is a hello and `J` a job.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ToAgent<H, J> {
    Hello(H),
    Ping { id: u64 },
    Alive {},
    Ask { id: u64, job: J },
    Stop { id: u64, urgent: bool },
    End {},
}

/// A message to a controller. `H` is a hello and `D` the result of a job.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ToController<H, D> {
    Hello(H),
    Pong { id: u64, at_ns: u64 },
    Alive {},
    Done(Done<D>),
    Said { line: String },
}

/// How a job ended: with `ok`, or with `error` and the last lines of output.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Done<D> {
    pub(crate) id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ok: Option<D>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) output: Vec<String>,
}

/// A message to an agent, with its hello and its job as they came.
pub(crate) type FromController = ToAgent<Box<RawValue>, Box<RawValue>>;

/// A message to a controller, with its hello and its result as they came.
pub(crate) type FromAgent = ToController<Box<RawValue>, Box<RawValue>>;

/// The line of a message.
pub(crate) fn line(message: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// The line of a message that has only numbers and texts.
pub(crate) fn plain_line(message: &impl Serialize) -> Vec<u8> {
    line(message).expect("numbers and texts are JSON")
}

/// The beginning of a line that was not understood, for an error.
pub(crate) fn shown(line: &[u8]) -> String {
    const MOST: usize = 100;
    let text = String::from_utf8_lossy(&line[..line.len().min(MOST)]);
    if line.len() > MOST { format!("`{text}`…") } else { format!("`{text}`") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_those_of_the_protocol() {
        let to_agent = |message: &ToAgent<u8, u8>| serde_json::to_value(message).unwrap();
        assert_eq!(to_agent(&ToAgent::Ping { id: 3 }), json!({"ping": {"id": 3}}));
        assert_eq!(to_agent(&ToAgent::Ask { id: 3, job: 7 }), json!({"ask": {"id": 3, "job": 7}}));
        let stop = ToAgent::Stop { id: 3, urgent: true };
        assert_eq!(to_agent(&stop), json!({"stop": {"id": 3, "urgent": true}}));
        assert_eq!(to_agent(&ToAgent::End {}), json!({"end": {}}));
        let to_controller = |message: &ToController<u8, u8>| serde_json::to_value(message).unwrap();
        assert_eq!(
            to_controller(&ToController::Pong { id: 3, at_ns: 9 }),
            json!({"pong": {"id": 3, "at_ns": 9}})
        );
        let ok = Done { id: 3, ok: Some(1), error: None, output: Vec::new() };
        assert_eq!(to_controller(&ToController::Done(ok)), json!({"done": {"id": 3, "ok": 1}}));
        let failed = Done { id: 3, ok: None, error: Some("no".into()), output: vec!["x".into()] };
        assert_eq!(
            to_controller(&ToController::Done(failed)),
            json!({"done": {"id": 3, "error": "no", "output": ["x"]}})
        );
    }

    #[test]
    fn both_sides_read_what_the_other_writes() {
        assert!(matches!(serde_json::from_slice(ALIVE).unwrap(), FromController::Alive {}));
        assert!(matches!(serde_json::from_slice(ALIVE).unwrap(), FromAgent::Alive {}));
        let asked = line(&ToAgent::<(), _>::Ask { id: 1, job: json!({"a": [1, 2.5]}) }).unwrap();
        match serde_json::from_slice(&asked).unwrap() {
            FromController::Ask { id: 1, job } => assert_eq!(job.get(), r#"{"a":[1,2.5]}"#),
            other => panic!("{other:?}"),
        }
        let done = br#"{"done":{"id":1,"ok":null}}"#;
        match serde_json::from_slice(done).unwrap() {
            FromAgent::Done(Done { id: 1, ok: None, error: None, output }) => assert!(output.is_empty()),
            other => panic!("{other:?}"),
        }
        let hello = plain_line(&ToAgent::<u8, ()>::Hello(1));
        assert!(hello.starts_with(HELLO));
        for nonsense in [&b"{}"[..], b"[]", b"{\"pong\":{}}", b"{\"other\":{}}", b"{\"alive\":{}} x", b"\xff"]
        {
            assert!(serde_json::from_slice::<FromAgent>(nonsense).is_err());
        }
    }

    #[test]
    fn a_long_line_is_shown_in_part() {
        assert_eq!(shown(b"short"), "`short`");
        assert_eq!(shown(&[b'x'; 1000]).chars().count(), 103);
    }
}
