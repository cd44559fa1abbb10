//! The thread of an agent that reads the controller's lines. It answers pings itself, so that a running job does not
//! make the channel look slow.

use std::io::Read;
use std::sync::Arc;

use kqps_kernel::clock;

use super::session::{Over, Session};
use crate::lines::{LineError, Lines};
use crate::message::{self, FromController, LINE_MOST, ToAgent, ToController};

/// Reads until the conversation is over.
pub(super) fn read(session: &Session, input: impl Read) {
    let mut lines = Lines::new(input, Arc::clone(&session.heard_ns));
    let over = loop {
        match lines.next(LINE_MOST) {
            Ok(Some(line)) => {
                if let Err(over) = take(session, line) {
                    break over;
                }
            }
            Ok(None) | Err(LineError::Unreadable(_)) => break Over::Closed,
            Err(error @ LineError::TooLong(_)) => break Over::Nonsense(error.to_string()),
        }
    };
    session.end(over);
}

fn take(session: &Session, line: &[u8]) -> Result<(), Over> {
    let nonsense = |what: String| Err(Over::Nonsense(what));
    let Ok(message) = serde_json::from_slice::<FromController>(line) else {
        return nonsense(message::shown(line));
    };
    if !session.is_greeted() && !matches!(message, ToAgent::Hello(_)) {
        return nonsense(format!("{} before a hello", message::shown(line)));
    }
    match message {
        ToAgent::Hello(hello) => {
            if !session.greet(hello) {
                return nonsense("a second hello".into());
            }
        }
        ToAgent::Ping { id } => {
            let pong = ToController::<(), ()>::Pong { id, at_ns: clock::now_ns() };
            session.outbox.send(message::plain_line(&pong)).map_err(|_| Over::Closed)?;
        }
        ToAgent::Alive {} => {}
        ToAgent::Ask { id, job } => session.ask(id, job),
        ToAgent::Stop { id, urgent } => session.stop(id, urgent),
        ToAgent::End {} => return Err(Over::Asked),
    }
    Ok(())
}
