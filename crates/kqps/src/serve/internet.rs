//! `kqps serve internet`.

mod files;
mod generated;
mod name;
mod network;
mod status;
pub(crate) mod tree_folder;
pub(crate) mod words;
mod zones;

use std::ffi::OsString;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use kqps_kernel::interrupts::Interrupts;
use kqps_kernel::process::{Signal, signal};
use kqps_kernel::signal::Signals;
use kqps_server::connections::Limits;
use kqps_server::services::internet::{Book, InternetService, Tree};
use kqps_server::setup::{Listen, Listeners, Reach, Reply, Sockets};
use kqps_server::{Model, ServeError, Server, ServerSetup};
use kqps_testbed::subject::definition::StopSignal;
use kqps_testbed::subject::process::Process;

use crate::exit::bad_input;
use crate::internet_args::InternetArgs;
use crate::print;
use crate::value::{List, cores, parse_buffer_size, parse_duration, parse_list, parse_listen, parse_within};
use files::Files;
use generated::Generated;
use name::NetworkName;
use network::Network;
use status::Watch;
use tree_folder::ServerLine;
use zones::{ServerArgument, ZonesByServer, parse_server};

/// The port of DNS, at which resolvers ask.
const PORT: u16 = 53;

/// How long a command may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(5);

/// The limits of connections by TCP. A resolver is one client, and may have all of them.
const LIMITS: Limits = Limits { idle: Duration::from_secs(10), connections: 4096, per_client: 4096 };

const EXAMPLES: &str = "\
Examples:
  kqps serve internet --size small -- unbound -d -c my.conf
  kqps serve internet --server 192.0.2.1=.=root --delay 20ms --namespace box
  kqps serve internet --server 127.0.1.1=test.zone --loopback 5300
  kqps serve internet --tree seen -- unbound -d -c my.conf";

/// Be all name servers that a resolver asks, each at its own address: the Internet in a box
///
/// The servers are in a network of their own, on port 53, and the resolver is in another one, which reaches these servers
/// and nothing else. Both networks end with this command. Start the resolver after `--`, or with the line that this
/// command prints; give it the root hints and the trust anchor whose paths are printed.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::doc_markdown)] // the comments are the help text
pub(super) struct Args {
    /// A server at these addresses has the zone of a master file (repeatable): 192.0.2.1,2001:db8::1=test.zone
    ///
    /// A server may have several zones. It answers from these alone; queries about others are refused. Without an origin
    /// the zone's name is that in the file, or the file's own name. Servers with the zone `.` are in the root hints.
    #[arg(long, value_name = "ADDR[,ADDR...]=[ORIGIN=]FILE", value_parser = parse_server, conflicts_with_all = ["recipe", "size", "set", "seed"],
          help_heading = "Servers")]
    server: Vec<ServerArgument>,

    /// Send each answer this long after its query, up to 2m
    #[arg(long, value_name = "DURATION", value_parser = parse_delay, requires = "server", help_heading = "Servers")]
    delay: Option<Duration>,

    /// Serve the tree of a folder that `kqps gen internet -d CAPTURE` wrote: its servers, zones and delays
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["server", "recipe", "size", "set", "seed"], help_heading = "Tree")]
    tree: Option<PathBuf>,

    #[command(flatten)]
    internet: InternetArgs,

    /// Name the resolver's network, for `ip netns exec NAME COMMAND`
    ///
    /// Without a name it is reached with the line that is printed. A name that a killed kqps left is removed at the next
    /// start.
    #[arg(long, value_name = "NAME", conflicts_with = "loopback", help_heading = "Network")]
    namespace: Option<String>,

    /// Make no networks: answer at 127.0.0.0/8 on this port, for a resolver whose configuration takes a port
    ///
    /// Port 0 picks a free one. It needs no rights. All servers have addresses of 127.0.0.0/8: name them by --server, or move
    /// those of a recipe by `--set addresses.ipv4=127.64.0.0/16 --set addresses.ipv6=`. Resolvers ask port 53 of servers that
    /// they find in referrals, so they ask only servers that their configuration names, as stub or forward zones. There is no
    /// IPv6, and no delay or loss of a network.
    #[arg(long, value_name = "PORT", value_parser = parse_within::<u16>(0..=65_535), help_heading = "Network")]
    loopback: Option<u16>,

    /// Worker threads
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_within::<u32>(1..=1024),
          help_heading = "Sockets and workers")]
    threads: u32,

    /// Pin the workers to these cores, one by one, such as 0,2-5; they then keep delays more exactly
    #[arg(long, value_name = "LIST", value_parser = parse_list, help_heading = "Sockets and workers")]
    cpus: Option<List>,

    /// Size of the receive buffer, and of the send buffer, of each socket for datagrams
    #[arg(long, value_name = "SIZE", default_value = "4MiB", value_parser = parse_buffer_size,
          help_heading = "Sockets and workers")]
    buffer: u64,

    /// List the N servers and the N questions with most queries at the end, up to 1000
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = parse_within::<u32>(0..=1000),
          help_heading = "Counts")]
    top: u32,

    /// Offer the counts at this Unix socket, for `kqps serve status PATH`
    #[arg(long, value_name = "PATH", help_heading = "Counts")]
    status: Option<PathBuf>,

    /// Offer the counts to Prometheus at this address
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_listen, help_heading = "Counts")]
    metrics: Option<SocketAddr>,

    /// Stop this long after the server can answer
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration, help_heading = "Output and end")]
    time: Option<Duration>,

    /// Print JSON lines: one when the server can answer, one with its counts
    #[arg(long, help_heading = "Output and end")]
    json: bool,

    /// Run this in the resolver's network, and end with it; {root_hints} and {trust_anchor} become paths
    ///
    /// Its standard output goes to standard error. When the server ends, the command is asked to end (SIGTERM), and
    /// whatever is left of it after 5 s is killed.
    #[arg(value_name = "COMMAND", last = true)]
    command: Vec<OsString>,
}

impl Args {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let check = |prefixes: &[_]| network::check(prefixes, self.loopback.is_some()).map_err(bad_input);
        let of_files = match (&self.tree, &*self.server) {
            (Some(folder), _) => Some(self.of_folder(folder)),
            (None, []) => None,
            (None, servers) => Some(ZonesByServer::from_arguments(servers, self.delay.unwrap_or_default())),
        };
        let tree: Arc<dyn Tree> = if let Some(tree) = of_files {
            let tree = tree.map_err(bad_input)?;
            check(&tree.prefixes())?;
            Arc::new(tree)
        } else {
            let internet = self.internet.internet()?;
            // Before the tree is signed, which takes a while.
            check(&internet.prefixes())?;
            Arc::new(Generated::new(internet))
        };
        self.serve(&tree)
    }

    /// The tree of a folder, without servers whose addresses no network of a box can have, such as those of loopback.
    fn of_folder(&self, folder: &Path) -> Result<ZonesByServer, String> {
        let servers = tree_folder::read(folder)?;
        let can_be = |server: &ServerLine| network::can_have(server.address, self.loopback.is_some());
        let (servers, left_out): (Vec<ServerLine>, Vec<ServerLine>) = servers.into_iter().partition(can_be);
        if let Some(first) = left_out.first() {
            let (count, address) = (left_out.len(), first.address);
            eprintln!(
                "kqps: warning: {count} of its servers are left out, such as {address}: a box cannot have their addresses"
            );
        }
        if servers.is_empty() {
            return Err(format!("{}: a box can have none of its servers' addresses", folder.display()));
        }
        ZonesByServer::load(&servers)
    }

    /// Serves a tree until the end.
    fn serve(&self, tree: &Arc<dyn Tree>) -> anyhow::Result<ExitCode> {
        // From here on a signal waits until the server reads it, so that nothing stays behind.
        let _signals = Signals::take(true)?;
        let network = match self.loopback {
            Some(_) => Network::Loopback,
            None => Network::lay(&tree.prefixes())?,
        };
        files::remove_left_behind();
        name::remove_left_behind();
        let files = Files::write(&**tree)?;
        let name = match (&self.namespace, network.home()) {
            (Some(name), Some(home)) => Some(NetworkName::give(home, name)?),
            _ => None,
        };
        let book = Arc::new(Book::default());
        // These addresses are the host's, not those of the box.
        let watch = Watch::listen(self.status.as_deref(), self.metrics)?;
        let service = InternetService {
            tree: tree.clone(),
            book: book.clone(),
            top: self.top as usize,
            limits: LIMITS,
        };
        let setup = ServerSetup { arrivals: tree.has_delays(), ..self.setup()? };
        let server = network.within(|| super::start(&setup, Box::new(service))).map_err(of_this_command)?;
        let server = match server {
            super::Starting::Started(server) => *server,
            super::Starting::Stopped(status) => return Ok(status),
        };
        server.notes().iter().for_each(|note| eprintln!("kqps: warning: {note}"));
        let watching = watch.serve(tree, &book, self.top as usize)?;
        let addresses = &server.addresses().datagrams;
        let ready =
            words::Ready::new((&network, name.as_ref()), &files, &**tree, addresses, watching.metrics);
        words::ready(&mut print::Out, self.json, &ready)?;
        let command = self.start_command(&network, &files)?;
        self.run_server(server, command)
    }

    /// Serves until a signal, the end of the time, or the end of the command.
    fn run_server(&self, server: Server, command: Option<Process>) -> anyhow::Result<ExitCode> {
        let watching = command.map(Watched::new).transpose()?;
        let ended = server.run(self.time, |_| {});
        let command_end = watching.map(Watched::end).transpose()?.flatten();
        let printed = super::words::counts(&mut print::Out, self.json, &ended.report);
        ended.failed.map_or(Ok(()), Err)?;
        printed?;
        match command_end {
            Some(status) if !status.success() => {
                Err(anyhow::anyhow!("the command after -- ended by itself: {status}"))
            }
            _ => Ok(ExitCode::SUCCESS),
        }
    }

    fn setup(&self) -> anyhow::Result<ServerSetup> {
        let port = self.loopback.unwrap_or(PORT);
        let v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let v6 = self.loopback.is_none().then(|| SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)));
        let listen = |address| Listen { address, with_tcp: true };
        Ok(ServerSetup {
            listen: std::iter::once(v4).chain(v6).map(listen).collect(),
            tcp: Vec::new(),
            tls: None,
            io: Model::Mmsg,
            device: None,
            processes: 1,
            threads: self.threads,
            sockets: if self.threads > 1 { Sockets::ReusePort } else { Sockets::Shared },
            listeners: Listeners::Shared,
            reply: Reply::Same,
            cpus: cores(self.cpus.as_ref())?,
            buffer_bytes: usize::try_from(self.buffer)?,
            steer: false,
            reach: if self.loopback.is_some() { Reach::Loopback } else { Reach::Routed },
            arrivals: true,
        })
    }

    /// Starts the command, if there is one, in the resolver's network.
    fn start_command(&self, network: &Network, files: &Files) -> anyhow::Result<Option<Process>> {
        let Some((program, arguments)) = self.command.split_first() else { return Ok(None) };
        let filled = arguments.iter().map(|argument| files.fill(argument));
        let mut command = Command::new(program);
        command.args(filled.collect::<Result<Vec<_>, _>>().map_err(bad_input)?);
        network.place(&mut command)?;
        command.stdin(Stdio::null()).stdout(std::io::stderr());
        let kqps = std::env::current_exe().context("the path of this program is not known")?;
        let started = Process::spawn_beside(command, files.folder(), &kqps);
        let failed = || format!("cannot start {}", program.to_string_lossy());
        started.map(Some).with_context(failed)
    }
}

/// An error with the flag of this command in place of that of other servers.
fn of_this_command(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<ServeError>() {
        Some(ServeError::Bind(bind)) => anyhow::anyhow!(bind.to_string().replace("--listen", "--loopback")),
        _ => error,
    }
}

/// A command whose end ends the server.
struct Watched {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Process, Option<ExitStatus>)>,
}

impl Watched {
    /// How often the command is looked at.
    const LOOK: Duration = Duration::from_millis(20);

    fn new(mut command: Process) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = stop.clone();
        let thread = std::thread::Builder::new().name("command".to_owned()).spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                if let Some(status) = command.status() {
                    // The server reads signals, and ends as by a user's.
                    let _ = signal(std::process::id(), Signal::Terminate);
                    return (command, Some(status));
                }
                std::thread::sleep(Self::LOOK);
            }
            (command, None)
        })?;
        Ok(Self { stop, thread })
    }

    /// Ends the command. Returns its status if it ended by itself.
    fn end(self) -> anyhow::Result<Option<ExitStatus>> {
        self.stop.store(true, Ordering::Relaxed);
        let (command, status) = self
            .thread
            .join()
            .map_err(|_| anyhow::anyhow!("the thread that watches the command panicked"))?;
        command.stop(StopSignal::Term, PATIENCE, &Interrupts::default());
        Ok(status)
    }
}

/// The longest delay of an answer.
const DELAY_MOST: Duration = Duration::from_mins(2);

fn parse_delay(text: &str) -> Result<Duration, String> {
    let delay = parse_duration(text)?;
    if delay > DELAY_MOST { Err("expected 2m at most, such as 20ms".to_owned()) } else { Ok(delay) }
}
