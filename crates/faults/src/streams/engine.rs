//! The server's loop: it accepts connections and gives each its turn. One thread does it all.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

use anyhow::{Context as _, Result};
use kqps_kernel::epoll::{Epoll, Interest};
use kqps_kernel::{clock, tcp};

use super::ServerSettings;
use super::connection::{Connection, Turn};
use super::serving::Serving;
use super::shared::Shared;

/// Descriptors that one wait returns at most.
const EVENTS: usize = 256;

/// The key of the listening socket. Those of connections follow, by their place.
const LISTENER: u64 = 0;

/// The state of the loop.
pub(super) struct Engine {
    address: SocketAddr,
    /// `None` while connections are refused.
    listener: Option<TcpListener>,
    /// When connections are accepted again; `None` unless they are refused.
    refuses_until_ns: Option<u64>,
    epoll: Epoll,
    places: Vec<Option<Connection>>,
    free: Vec<usize>,
    shared: Shared,
}

impl Engine {
    pub(super) fn new(settings: ServerSettings) -> Result<Self> {
        let epoll = Epoll::new(EVENTS)?;
        let (listener, address) = listen(settings.listen, &epoll)?;
        Ok(Self {
            address,
            listener: Some(listener),
            refuses_until_ns: None,
            epoll,
            places: Vec::new(),
            free: Vec::new(),
            shared: Shared::new(settings),
        })
    }

    /// Gives a connection its turn, if it is still there.
    fn turn_of(
        &mut self,
        place: usize,
        now_ns: u64,
        turn: impl Fn(&mut Connection, &mut Shared, u64) -> Turn,
    ) -> Result<()> {
        let Some(connection) = &mut self.places[place] else { return Ok(()) };
        self.shared.turn_of = place;
        let before = connection.interest;
        match turn(connection, &mut self.shared, now_ns) {
            Turn::Ended => {
                self.places[place] = None;
                self.free.push(place);
            }
            Turn::GoesOn if connection.interest != before => {
                self.epoll.change(&connection.socket, place as u64 + 1, connection.interest)?;
            }
            Turn::GoesOn => {}
        }
        Ok(())
    }

    /// Accepts the waiting connections.
    fn accept(&mut self) -> Result<()> {
        let Some(listener) = &self.listener else { return Ok(()) };
        loop {
            let socket = match listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) =>
                {
                    continue;
                }
                Err(error) => return Err(error).context("accepting a connection"),
            };
            socket.set_nonblocking(true)?;
            socket.set_nodelay(true)?;
            self.shared.counts.connections += 1;
            let place = self.free.pop().unwrap_or_else(|| {
                self.places.push(None);
                self.places.len() - 1
            });
            self.epoll.watch(&socket, place as u64 + 1, Interest::Read)?;
            self.places[place] = Some(Connection::new(socket, &mut self.shared)?);
        }
    }

    /// Begins and ends the time in which connections are refused.
    fn refuse(&mut self, now_ns: u64) -> Result<()> {
        if self.refuses_until_ns.is_some_and(|until_ns| until_ns <= now_ns) {
            self.refuses_until_ns = None;
            self.listener = Some(listen(self.address, &self.epoll)?.0);
        }
        let (live, places) = (self.live(), &self.places);
        let are_open = |most: usize| live == most && places.iter().flatten().all(|one| !one.is_ending());
        let Some(until_ns) = self.shared.refuses_until_ns(now_ns, are_open) else { return Ok(()) };
        self.listener = None;
        self.refuses_until_ns = Some(until_ns);
        for place in 0..self.places.len() {
            self.turn_of(place, now_ns, |connection, shared, now_ns| {
                connection.refuse(now_ns);
                connection.go_on(shared, now_ns)
            })?;
        }
        Ok(())
    }
}

impl Serving for Engine {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn shared(&mut self) -> &mut Shared {
        &mut self.shared
    }

    fn turn(&mut self) -> Result<bool> {
        let most_ns = self.shared.sleep_ns();
        let ready: Vec<u64> = self.epoll.wait_for(Some(most_ns))?.map(|ready| ready.key).collect();
        let now_ns = clock::now_ns();
        for key in ready {
            match key {
                LISTENER => self.accept()?,
                key => self.turn_of(key as usize - 1, now_ns, Connection::turn)?,
            }
        }
        while let Some(place) = self.shared.pop_due(now_ns) {
            self.turn_of(place, now_ns, Connection::go_on)?;
        }
        self.refuse(now_ns)?;
        Ok(false)
    }

    fn live(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Reads the rest of connections that were not read, up to their end.
    fn hear_again(&mut self, now_ns: u64) -> Result<()> {
        if std::mem::take(&mut self.shared.settings.deaf) {
            for place in 0..self.places.len() {
                self.turn_of(place, now_ns, Connection::turn)?;
            }
        }
        Ok(())
    }
}

/// Listens at an address, under the key of the listening socket.
fn listen(address: SocketAddr, epoll: &Epoll) -> Result<(TcpListener, SocketAddr)> {
    let listener = tcp::listen(address, 1)?.pop().context("one listening socket was asked for")?;
    listener.set_nonblocking(true)?;
    epoll.add(&listener, LISTENER)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}
