//! Sends NOTIFY (RFC 1996) and waits for its reply.

use std::net::SocketAddr;
use std::time::Duration;

use kqps_ask::AskError;

use super::exchange::Target;
use super::message;
use super::over::Over;

/// The wait for a reply before the message is sent again. RFC 1996, section 3.6 leaves it to the sender.
const RETRY: Duration = Duration::from_secs(1);

/// The number of times that it is sent.
const TIMES: u32 = 3;

/// Sends the NOTIFY of a zone to an address by datagrams until its reply comes. `begun` is called before the first.
pub(super) fn send(
    target: &Target<'_>,
    zone: &str,
    to: SocketAddr,
    (over, begun): (&Over, impl FnOnce()),
) -> Result<(), String> {
    let message = message::notify(zone).map_err(|error| error.to_string())?;
    let mut socket = target.datagrams_to(to).map_err(|error| error.to_string())?;
    begun();
    for _ in 0..TIMES {
        match socket.ask(&message, RETRY) {
            Ok(reply) => {
                return message::accepted(&reply).map_err(|said| format!("{to} answered NOTIFY with {said}"));
            }
            Err(AskError::TimedOut) if !over.is_over() => (),
            Err(error) => return Err(format!("{to}: {error}")),
        }
    }
    Err(format!("{to} did not answer NOTIFY"))
}
