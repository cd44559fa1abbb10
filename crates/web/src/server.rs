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

/// The most streams of events at a time. Further ones get status 503, so that there is always room for other requests.
pub const STREAMS_MOST: usize = CLIENTS_MOST / 2;

/// How long a client may take to send its request, and to make room for what is written to it.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a client may take in all to get its answer, or one event of a stream.
const ANSWER_MOST: Duration = Duration::from_mins(1);

/// How long no client is accepted after the system had no descriptor for one.
const PAUSE: Duration = Duration::from_millis(200);

/// How often clients are counted that have not got their whole answer.
const LOOK: Duration = Duration::from_millis(5);

/// The paths with their answers.
pub trait Site: Send + Sync + 'static {
    /// The answer to a `GET` of this path, which begins with a slash if the client keeps to HTTP. `accept` are the media types
    /// that the client accepts (RFC 9110, section 12.5.1), and empty if it names none.
    fn get(&self, path: &str, accept: &str) -> Answer;
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
    /// Clients that have not gone.
    clients: AtomicUsize,
    /// Clients that an answer is written to.
    answered: AtomicUsize,
    /// Clients that get a stream of events.
    streams: AtomicUsize,
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
    // The measurement comes first.
    let _ = priority::run_last();
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // No descriptor is free; there may be one soon.
            thread::sleep(PAUSE);
            continue;
        };
        let client = Client(counts.clone());
        let before = counts.clients.fetch_add(1, SeqCst);
        if before >= 2 * CLIENTS_MOST {
            continue;
        }
        if before >= CLIENTS_MOST {
            // Without a thread the client is dropped.
            let _ = thread::Builder::new().name("client".to_owned()).spawn(move || {
                let _ = priority::run_last();
                let _client = client;
                let _ = refuse(&stream, 503, TOO_MANY);
            });
            continue;
        }
        let site = site.clone();
        // Without a thread the client is dropped.
        let _ = thread::Builder::new().name("client".to_owned()).spawn(move || {
            let _ = priority::run_last();
            // A client that has gone needs no answer.
            let _ = answer(&stream, &*site, &client.0);
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

/// The answer to a client beyond the most that are served.
const TOO_MANY: &str = "too many clients; try again later\n";

fn answer(stream: &TcpStream, site: &dyn Site, counts: &Counts) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let request = match request::read(&mut &*stream, Instant::now() + PATIENCE) {
        Ok(request) => request,
        Err(Refused::Gone) => return Ok(()),
        Err(Refused::Status(status, why)) => return refuse(stream, status, why),
    };
    // A page of another site that got its name to lead here is not to read what only this host may (DNS rebinding). Who
    // shows it to other hosts may give them a name for it.
    if !request.is_by_address && stream.local_addr()?.ip().is_loopback() {
        return refuse(stream, 421, "ask for this by address, or as localhost\n");
    }
    let answer = site.get(&request.path, &request.accept);
    let is_stream = matches!(answer, Answer::Events(_));
    let _stream = is_stream.then(|| Counted::one_of(&counts.streams));
    if is_stream && counts.streams.load(SeqCst) > STREAMS_MOST {
        return refuse(stream, 503, TOO_MANY);
    }
    let _answered = Counted::one_of(&counts.answered);
    answer::write(answer, !request.is_head, &mut InTime::new(stream))
}

/// Says why there is no answer. Bytes that were not read would make the kernel reset the connection before the client has
/// that, so they are read.
fn refuse(stream: &TcpStream, status: u16, why: &str) -> io::Result<()> {
    answer::whole(status, TEXT, why, true, &mut InTime::new(stream))?;
    stream.shutdown(Shutdown::Write)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    drain(stream);
    Ok(())
}

/// A client that is counted as long as this value lives.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn one_of(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, SeqCst);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// A client that must take all that is written to it up to a flush within [`ANSWER_MOST`], and some of it
/// within [`PATIENCE`].
struct InTime<'a> {
    stream: &'a TcpStream,
    /// `None` right after a flush.
    deadline: Option<Instant>,
}

impl<'a> InTime<'a> {
    fn new(stream: &'a TcpStream) -> Self {
        Self { stream, deadline: None }
    }
}

impl io::Write for InTime<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + ANSWER_MOST);
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_write_timeout(Some(left.min(PATIENCE)))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.deadline = None;
        Ok(())
    }
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
        fn get(&self, path: &str, _: &str) -> Answer {
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
        stream.write_all(bytes).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn paths_are_answered_and_nonsense_is_refused() {
        let address = started();
        let home = asked(address, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(home.starts_with("HTTP/1.1 200 ") && home.ends_with("\r\n\r\nhome"), "{home}");
        assert!(asked(address, b"GET /x HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        let rebound = asked(address, b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n");
        assert!(rebound.starts_with("HTTP/1.1 421 ") && !rebound.contains("home"), "{rebound}");
        assert!(asked(address, &[0xff; 300]).starts_with("HTTP/1.1 400 "));
        assert!(asked(address, b"GET / HTTP/1.1\r\n\r\n").ends_with("home"), "it goes on after nonsense");
    }

    /// A client whose place is taken when this returns.
    fn listening(address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /events HTTP/1.1\r\n\r\n").unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        stream
    }

    #[test]
    fn one_client_too_many_is_turned_away_and_places_become_free_again() {
        let address = started();
        let streams: Vec<TcpStream> = (0..STREAMS_MOST).map(|_| listening(address)).collect();
        // Streams leave room for other requests.
        assert!(asked(address, b"GET /events HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503 "));
        assert!(asked(address, b"GET / HTTP/1.1\r\n\r\n").ends_with("home"));
        // Clients that say nothing hold their places for a while. The server accepts in order.
        let silent: Vec<TcpStream> =
            (STREAMS_MOST..CLIENTS_MOST + 2).map(|_| TcpStream::connect(address).unwrap()).collect();
        assert!(asked(address, b"GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503 "));
        drop((streams, silent));
        // The server sees that a client has gone when it next writes to it.
        let deadline = Instant::now() + Duration::from_mins(1);
        while !asked(address, b"GET / HTTP/1.1\r\n\r\n").ends_with("home") {
            assert!(Instant::now() < deadline, "no place became free");
            thread::sleep(Duration::from_millis(50));
        }
    }

    #[test]
    fn a_client_that_takes_nothing_is_dropped_at_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let mut late = InTime { stream: &stream, deadline: Some(Instant::now()) };
        assert_eq!(late.write(b"x").unwrap_err().kind(), io::ErrorKind::TimedOut, "though there is room");
        late.flush().unwrap();
        assert_eq!(late.write(b"x").unwrap(), 1, "the next event has its own time");
    }
}
