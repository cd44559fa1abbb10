//! Accepts clients and answers each in a thread of its own. There are only a few clients at a time, so that whatever
//! they do, the rest of the program has its cores.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use kqps_kernel::priority;

use crate::answer::{self, Answer, TEXT};
use crate::request::{self, Refused};

/// The most clients at a time. Further ones get status 503.
pub const CLIENTS_MOST: usize = 32;

/// How long a client may take to send its request, and to make room for what is written to it.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long no client is accepted after the system had no descriptor for one.
const PAUSE: Duration = Duration::from_millis(200);

/// How often clients are counted that have not got their whole answer.
const LOOK: Duration = Duration::from_millis(5);

/// What the paths show.
pub trait Site: Send + Sync + 'static {
    /// The answer to a `GET` of this path, which begins with a slash if the client keeps to HTTP.
    fn get(&self, path: &str) -> Answer;
}

/// A server that answers until the process ends.
#[derive(Debug)]
pub struct Serving {
    /// Where it listens.
    pub address: SocketAddr,
    counts: Arc<Counts>,
}

/// How many clients there are.
#[derive(Debug, Default)]
struct Counts {
    /// Those that have not gone.
    clients: AtomicUsize,
    /// Those of them that an answer is written to.
    answered: AtomicUsize,
}

impl Serving {
    /// Waits until every client that asked has its whole answer, for `patience` at most.
    pub fn wait_for_answers(&self, patience: Duration) {
        let deadline = Instant::now() + patience;
        while self.counts.answered.load(SeqCst) > 0 && Instant::now() < deadline {
            thread::sleep(LOOK);
        }
    }
}

/// Answers clients from now on, in threads that end with the process.
///
/// # Errors
///
/// If the address of the listener cannot be read, or no thread can be started.
pub fn serve(listener: TcpListener, name: &str, site: Arc<dyn Site>) -> io::Result<Serving> {
    let address = listener.local_addr()?;
    let counts = Arc::new(Counts::default());
    let serving = Serving { address, counts: counts.clone() };
    thread::Builder::new().name(name.to_owned()).spawn(move || accept(&listener, &counts, &site))?;
    Ok(serving)
}

fn accept(listener: &TcpListener, counts: &Arc<Counts>, site: &Arc<dyn Site>) {
    // What is measured comes first.
    let _ = priority::run_last();
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // No descriptor is free; there may be one soon.
            thread::sleep(PAUSE);
            continue;
        };
        let client = Client(counts.clone());
        if counts.clients.fetch_add(1, SeqCst) >= CLIENTS_MOST {
            turn_away(&stream);
            continue;
        }
        let site = site.clone();
        // Without a thread the client is dropped.
        let _ = thread::Builder::new().name("client".to_owned()).spawn(move || {
            let _ = priority::run_last();
            // A client that has gone needs no answer.
            let _ = answer(&stream, &*site, &client.0.answered);
        });
    }
}

/// A client that is counted until it is dropped.
struct Client(Arc<Counts>);

impl Drop for Client {
    fn drop(&mut self) {
        self.0.clients.fetch_sub(1, SeqCst);
    }
}

/// Tells one client too many so, without waiting for it.
fn turn_away(mut stream: &TcpStream) {
    let _ = stream
        .set_nonblocking(true)
        .and_then(|()| answer::whole(503, TEXT, "too many clients; try again later\n", true, &mut stream));
}

fn answer(mut stream: &TcpStream, site: &dyn Site, answered: &AtomicUsize) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    match request::read(&mut stream, Instant::now() + PATIENCE) {
        Ok(request) => {
            answered.fetch_add(1, SeqCst);
            let written = answer::write(site.get(&request.path), !request.is_head, &mut stream);
            answered.fetch_sub(1, SeqCst);
            written?;
        }
        Err(Refused::Gone) => return Ok(()),
        Err(Refused::Status(status, why)) => {
            answer::whole(status, TEXT, why, true, &mut stream)?;
            // Bytes that were not read would make the kernel reset the connection before the client has the answer.
            stream.shutdown(Shutdown::Write)?;
            drain(stream);
        }
    }
    Ok(())
}

/// Reads what a refused client still sends, within bounds.
fn drain(mut stream: &TcpStream) {
    let (deadline, mut room) = (Instant::now() + PATIENCE, [0; 4096]);
    while Instant::now() < deadline && io::Read::read(&mut stream, &mut room).is_ok_and(|read| read > 0) {}
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;
    use crate::answer::{Events, Next};

    struct Paths;

    /// A stream that never says anything.
    struct Silent;

    impl Events for Silent {
        fn next(&mut self, patience: Duration) -> Next {
            thread::sleep(patience.min(Duration::from_millis(20)));
            Next::Nothing
        }
    }

    impl Site for Paths {
        fn get(&self, path: &str) -> Answer {
            match path {
                "/" => Answer::Body { media_type: TEXT, text: "home".into() },
                "/events" => Answer::Events(Box::new(Silent)),
                _ => Answer::Nothing("see /\n".into()),
            }
        }
    }

    fn started() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        serve(listener, "test", Arc::new(Paths)).unwrap().address
    }

    fn asked(address: SocketAddr, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        // A client that is turned away may be closed before its request was read. It then has what came until then.
        let _ = stream.write_all(bytes);
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    }

    #[test]
    fn paths_are_answered_and_nonsense_is_refused() {
        let address = started();
        let home = asked(address, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(home.starts_with("HTTP/1.1 200 ") && home.ends_with("\r\n\r\nhome"), "{home}");
        assert!(asked(address, b"GET /x HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(asked(address, &[0xff; 300]).starts_with("HTTP/1.1 400 "));
        assert!(asked(address, b"GET / HTTP/1.1\r\n\r\n").ends_with("home"), "it goes on after nonsense");
    }

    #[test]
    fn one_client_too_many_is_turned_away_and_places_become_free_again() {
        let address = started();
        let listening: Vec<TcpStream> = (0..CLIENTS_MOST)
            .map(|_| {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(b"GET /events HTTP/1.1\r\n\r\n").unwrap();
                let mut head = [0; 12];
                stream.read_exact(&mut head).unwrap();
                assert_eq!(&head, b"HTTP/1.1 200");
                stream
            })
            .collect();
        assert!(asked(address, b"").starts_with("HTTP/1.1 503 "));
        drop(listening);
        // The server sees that a client has gone when it next writes to it.
        let deadline = Instant::now() + Duration::from_mins(1);
        while !asked(address, b"GET / HTTP/1.1\r\n\r\n").ends_with("home") {
            assert!(Instant::now() < deadline, "no place became free");
            thread::sleep(Duration::from_millis(50));
        }
    }
}
