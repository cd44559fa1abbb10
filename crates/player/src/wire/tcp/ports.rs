//! Pairs of a source address and a port for connections that are closed and opened again. The player deals the ports of
//! each address in turn, so that a pair rests for as long as possible before it is used again, and the kernel need not
//! search for it. Threads that share an address have ports of their own. In a replay a connection comes from the
//! address of its client, and the ports of an address are dealt from its first connection on.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use kqps_kernel::ephemeral;

use crate::plan::Plan;
use crate::replay::Replayed;
use crate::share::share_of;
use crate::sources::unspecified;

/// The most pairs that one attempt tries. A few in a row may belong to other programs.
const TRIES: u32 = 16;

/// A port in so many is left to other programs: the kernel gives them none that a program has bound to.
const LEFT_OF: usize = 8;

/// The pairs of one thread.
pub(crate) struct Ports {
    /// The ports of every address, of all threads or of this one alone.
    all: Box<[u16]>,
    sources: Sources,
    /// How many ports of each address all threads together deal.
    of_each_address: usize,
}

/// The addresses of one thread.
enum Sources {
    /// Each flow has a pair of its own.
    Own(Box<[SocketAddr]>),
    /// The addresses of the flows, which take turns over them.
    InTurn(Box<[Source]>),
    /// The addresses of the clients of a replay, as far as they have had connections.
    Captured {
        /// The thread's number, from 0, among the threads that share the ports of an address, and how many these are.
        turn: (usize, usize),
        /// The address if the kernel chooses it.
        any: IpAddr,
        known: HashMap<IpAddr, Source>,
    },
}

/// A source address, and the ports of it that belong to the thread.
struct Source {
    address: IpAddr,
    /// Their indices.
    ports: Range<usize>,
    /// The index of the next one.
    next: usize,
}

impl Ports {
    /// Pairs of which flow 0 of the plan has the port `first`, and each other flow the one after.
    pub(super) fn of_each_flow(first: u16, plan: &Plan, flows: Range<usize>) -> Self {
        let pair = |flow: usize| SocketAddr::new(address(plan, flow), first.wrapping_add(flow as u16));
        let sources = Sources::Own(flows.map(pair).collect());
        Self { all: Box::default(), sources, of_each_address: plan.flows() }
    }

    /// The pairs of the thread that has these of a plan's flows. It begins at a random port, since the pairs of an
    /// earlier trial may still be in `TIME_WAIT`.
    pub(super) fn new(plan: &Plan, flows: Range<usize>) -> Self {
        Self::from_dealt(dealt(), plan, flows)
    }

    /// The pairs of a thread of a replay, by its number among those of its plan. If each client has an address of its
    /// own and all of its connections are one thread's, that thread has all ports of the address.
    pub(super) fn of_replay(plan: &Plan, replayed: &Replayed, thread: usize) -> Self {
        let is_alone = replayed.crowd.is_apart() && replayed.flows.are_of_clients();
        let turn = if is_alone { (0, 1) } else { (thread, plan.threads) };
        Self::of_clients(dealt(), plan, turn)
    }

    fn of_clients(all: Vec<u16>, plan: &Plan, turn: (usize, usize)) -> Self {
        let any = unspecified(plan.targets[0]);
        let sources = Sources::Captured { turn, any, known: HashMap::new() };
        Self { of_each_address: all.len(), all: all.into(), sources }
    }

    fn from_dealt(all: Vec<u16>, plan: &Plan, flows: Range<usize>) -> Self {
        let addresses = addresses(plan);
        let share = |number: usize| turn(plan, number, addresses);
        let sources = sources(plan, flows, all.len(), share);
        Self { of_each_address: all.len(), all: all.into(), sources }
    }

    /// The pairs of a thread that has these ports of every address for itself. `of_each_address` is how many all
    /// threads together have.
    pub(super) fn of_thread(own: Vec<u16>, of_each_address: usize, plan: &Plan, flows: Range<usize>) -> Self {
        let sources = sources(plan, flows, own.len(), |_| (0, 1));
        Self { all: own.into(), sources, of_each_address }
    }

    /// The pairs for the clients of a replay, with ports as in [`Self::of_thread`].
    pub(super) fn of_clients_of_thread(own: Vec<u16>, of_each_address: usize, plan: &Plan) -> Self {
        Self { of_each_address, ..Self::of_clients(own, plan, (0, 1)) }
    }

    /// How many ports of each address are dealt, by all threads together.
    pub(super) fn of_each_address(&self) -> usize {
        self.of_each_address
    }

    /// The next pair of the source of a flow, which is counted from the thread's first one; `None` if there is none. In
    /// a replay `from` is the address of the client, unless the kernel chooses it.
    fn next(&mut self, flow: usize, from: Option<IpAddr>) -> Option<SocketAddr> {
        let source = match &mut self.sources {
            Sources::Own(pairs) => return pairs.get(flow).copied(),
            Sources::InTurn(sources) => {
                let count = sources.len();
                &mut sources[flow % count]
            }
            Sources::Captured { turn, any, known } => {
                let address = from.unwrap_or(*any);
                known.entry(address).or_insert_with(|| Source::new(address, self.all.len(), *turn))
            }
        };
        if source.ports.is_empty() {
            return None;
        }
        let port = self.all[source.next];
        source.next = if source.next + 1 == source.ports.end { source.ports.start } else { source.next + 1 };
        Some(SocketAddr::new(source.address, port))
    }

    /// Begins to connect a flow by `begin`, from its next pair that is not in use, and counts those that are. `begin`
    /// returns `None` for them. `from` is the address of its client in a replay. `tried` is how many pairs the attempt
    /// has tried. Fails with [`io::ErrorKind::AddrNotAvailable`] if a few in a row are in use.
    pub(super) fn connect<T>(
        &mut self,
        (flow, from): (usize, Option<IpAddr>),
        (tried, in_use): (&mut u32, &mut u64),
        mut begin: impl FnMut(SocketAddr) -> io::Result<Option<T>>,
    ) -> io::Result<T> {
        let tries = if matches!(self.sources, Sources::Own(_)) { 1 } else { TRIES };
        while *tried < tries {
            *tried += 1;
            let Some(pair) = self.next(flow, from) else { break };
            match begin(pair)? {
                Some(begun) => return Ok(begun),
                None => *in_use += 1,
            }
        }
        Err(io::ErrorKind::AddrNotAvailable.into())
    }
}

/// The number of source addresses.
fn addresses(plan: &Plan) -> u128 {
    plan.local.map_or(1, |local| local.count())
}

/// The source addresses of these flows. Of `ports` ports each has the share that `turn` returns for its flow.
fn sources(
    plan: &Plan,
    flows: Range<usize>,
    ports: usize,
    turn: impl Fn(usize) -> (usize, usize),
) -> Sources {
    let count = addresses(plan).min(flows.len() as u128) as usize;
    let source = |number: usize| Source::new(address(plan, number), ports, turn(number));
    Sources::InTurn(flows.take(count).map(source).collect())
}

impl Source {
    /// An address with the share that one of its users, by number, has of so many ports.
    fn new(address: IpAddr, ports: usize, (turn, users): (usize, usize)) -> Self {
        let share = share_of(ports as u64, users, turn);
        let ports = share.start as usize..share.end as usize;
        let next = if ports.is_empty() { ports.start } else { fastrand::usize(ports.clone()) };
        Self { address, ports, next }
    }
}

/// The ports of an address that are dealt.
fn dealt() -> Vec<u16> {
    let mut all = ephemeral::ports();
    all.truncate(all.len() - all.len() / LEFT_OF);
    all
}

/// The source address of flow `number`; the unspecified one lets the kernel choose the address, and not the port.
fn address(plan: &Plan, number: usize) -> IpAddr {
    plan.local.map_or_else(|| unspecified(plan.targets[0]), |local| local.of_socket(number))
}

/// The rank of flow `number`'s thread, from 0, among the threads that use the flow's address, and how many use it.
fn turn(plan: &Plan, number: usize, addresses: u128) -> (usize, usize) {
    if addresses >= plan.flows() as u128 {
        return (0, 1);
    }
    let (mut turn, mut users) = (0, 0);
    for thread in 0..plan.threads {
        let flows = share_of(plan.flows() as u64, plan.threads, thread);
        if flows.contains(&(number as u64)) {
            turn = users;
        }
        users += usize::from(uses(&flows, number, addresses));
    }
    (turn, users)
}

/// Whether one of these flows has the same address as flow `number`.
fn uses(flows: &Range<u64>, number: usize, addresses: u128) -> bool {
    let (wanted, first) = (number as u128 % addresses, u128::from(flows.start) % addresses);
    let steps = if wanted >= first { wanted - first } else { addresses - (first - wanted) };
    u128::from(flows.start) + steps < u128::from(flows.end)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::TcpListener;

    use kqps_kernel::tcp_client::TcpClient;

    use super::*;
    use crate::plan::tests::{plan, tcp};
    use crate::wire::tcp::kernel::{self, Origin};

    /// A plan with these sources for this many connections of this many threads.
    fn planned(sources: Option<&str>, connections: usize, threads: usize) -> Plan {
        let target = SocketAddr::from(([127, 0, 0, 1], 53));
        let local = sources.map(|sources| sources.parse().unwrap());
        Plan { wire: tcp(connections), local, threads, ..plan(target) }
    }

    /// The pairs of each thread, as dealt to its flows in turn, `rounds` times.
    fn dealt(plan: &Plan, ports: Range<u16>, rounds: usize) -> Vec<Vec<SocketAddr>> {
        let of_thread = |thread: usize| {
            let share = share_of(plan.flows() as u64, plan.threads, thread);
            let flows = share.start as usize..share.end as usize;
            let mut dealer = Ports::from_dealt(ports.clone().collect(), plan, flows.clone());
            let flows = (0..rounds).flat_map(|_| 0..flows.len()).collect::<Vec<_>>();
            flows.into_iter().filter_map(|flow| dealer.next(flow, None)).collect()
        };
        (0..plan.threads).map(of_thread).collect()
    }

    #[test]
    fn every_pair_is_dealt_once_before_any_is_dealt_twice() {
        // Two flows share one address, or have one each.
        for (sources, addresses, rounds) in [(None, 1, 15), (Some("127.1.0.0/29"), 2, 30)] {
            let plan = planned(sources, 2, 1);
            let pairs = dealt(&plan, 1000..1030, rounds * 3).remove(0);
            let whole = addresses * 30;
            for round in pairs.chunks(whole) {
                assert_eq!(round.iter().collect::<BTreeSet<_>>().len(), whole, "{sources:?}");
            }
            assert_eq!(pairs.len(), whole * 3, "{sources:?}");
        }
    }

    #[test]
    fn a_thread_may_have_ports_of_its_own_at_every_address() {
        let plan = planned(Some("127.1.0.0/29"), 2, 1);
        let mut ports = Ports::of_thread((1000..1010).collect(), 30, &plan, 0..2);
        assert_eq!(ports.of_each_address(), 30);
        let dealt: BTreeSet<SocketAddr> =
            (0..20).map(|number| ports.next(number % 2, None).expect("there are ten for each")).collect();
        assert_eq!(dealt.len(), 20);
        assert!(dealt.iter().all(|pair| (1000..1010).contains(&pair.port())));
    }

    #[test]
    fn threads_have_no_pair_in_common_and_use_all_ports() {
        for (sources, connections, threads, addresses) in [
            (None, 6, 3, 1),
            (Some("127.1.0.9"), 7, 2, 1),
            // Two addresses, and flows of both in each thread.
            (Some("127.1.0.0/31"), 9, 3, 2),
            // Six addresses for eight flows of two threads: two addresses are used by both.
            (Some("127.1.0.0/29"), 8, 2, 6),
            (Some("127.1.0.0/16"), 8, 4, 8),
        ] {
            let plan = planned(sources, connections, threads);
            let pairs = dealt(&plan, 1000..1100, 100);
            let distinct: Vec<BTreeSet<_>> = pairs.iter().map(|pairs| pairs.iter().collect()).collect();
            let all: BTreeSet<_> = distinct.iter().flatten().collect();
            assert_eq!(all.len(), distinct.iter().map(BTreeSet::len).sum::<usize>(), "{sources:?}");
            assert_eq!(all.len(), addresses * 100, "{sources:?}");
        }
    }

    #[test]
    fn each_flow_may_have_a_port_of_its_own() {
        let plan = planned(Some("127.1.0.9"), 3, 2);
        let mut ports = Ports::of_each_flow(1000, &plan, 1..3);
        let pairs = [0, 1, 0, 2].map(|flow| ports.next(flow, None).map(|pair| pair.port()));
        assert_eq!(pairs, [Some(1001), Some(1002), Some(1001), None]);
        let (mut tried, mut in_use) = (0, 0);
        let refused: io::Result<()> = ports.connect((0, None), (&mut tried, &mut in_use), |_| Ok(None));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::AddrNotAvailable);
        assert_eq!((tried, in_use), (1, 1), "no other pair would do");
    }

    #[test]
    fn the_ports_of_a_client_are_those_of_its_address_whatever_its_flow() {
        let plan = planned(Some("127.1.0.0/24"), 4, 2);
        let own = |number: u8| Some(IpAddr::from([127, 1, 0, number]));
        let mut pairs = Vec::new();
        for thread in 0..2 {
            let mut ports = Ports::of_clients((1000..1020).collect(), &plan, (thread, 2));
            for flow in 0..10 {
                pairs.extend(ports.next(flow, own(7)));
                pairs.extend(ports.next(3, own(8)));
            }
        }
        let distinct: BTreeSet<_> = pairs.iter().collect();
        assert_eq!((pairs.len(), distinct.len()), (40, 40), "two threads share the ports of both addresses");
        assert!(pairs.iter().all(|pair| [own(7), own(8)].contains(&Some(pair.ip()))));
        let mut of_kernel = Ports::of_clients(vec![1000], &plan, (0, 1));
        assert_eq!(of_kernel.next(0, None), Some(SocketAddr::from(([0, 0, 0, 0], 1000))));
    }

    fn connect(ports: &mut Ports, to: SocketAddr, in_use: &mut u64) -> io::Result<TcpClient> {
        let begin = |pair| kernel::open(Origin::Pair(pair), to, None, TcpClient::begin);
        ports.connect((0, None), (&mut 0, in_use), begin)
    }

    #[test]
    fn a_port_in_use_is_passed_over_and_none_left_is_an_error() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = server.local_addr().unwrap();
        // 127.0.54.1: no other test uses it.
        let taken = TcpListener::bind("127.0.54.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let plan = planned(Some("127.0.54.1"), 1, 1);
        let mut in_use = 0;
        let error = connect(&mut Ports::from_dealt(vec![port], &plan, 0..1), to, &mut in_use).unwrap_err();
        assert_eq!((error.kind(), in_use), (io::ErrorKind::AddrNotAvailable, 16));
        let none = connect(&mut Ports::from_dealt(Vec::new(), &plan, 0..1), to, &mut in_use).unwrap_err();
        assert_eq!((none.kind(), in_use), (io::ErrorKind::AddrNotAvailable, 16));

        drop(taken);
        let mut ports = Ports::from_dealt(vec![port], &plan, 0..1);
        let first = connect(&mut ports, to, &mut in_use).unwrap();
        let (_, peer) = server.accept().unwrap();
        assert_eq!(peer, SocketAddr::from(([127, 0, 54, 1], port)));
        // While the first connection lasts, the pair is in use.
        assert!(connect(&mut ports, to, &mut in_use).is_err());
        assert_eq!(in_use, 32);
        drop(first);
    }
}
