//! The names of settings.

use std::borrow::Cow;

/// The prefix of the player's settings.
pub const PLAYER: &str = "player.";
/// The player's I/O.
pub const PLAYER_IO: &str = "player.io";
/// The number of the player's sending threads.
pub const PLAYER_SENDERS: &str = "player.senders";
/// The number of the player's sockets.
pub const PLAYER_SOCKETS: &str = "player.sockets";
/// The most queries outstanding.
pub const PLAYER_WINDOW: &str = "player.window";
/// The most queries in one burst.
pub const PLAYER_BURST: &str = "player.burst";
/// The seconds after which a reply is late.
pub const PLAYER_TIMEOUT: &str = "player.timeout_s";
/// The choice of source addresses.
pub const PLAYER_SOURCES: &str = "player.sources";
/// The transport of queries and replies.
pub const PLAYER_TRANSPORT: &str = "player.transport";
/// The number of connections that may be open at once.
pub const PLAYER_CONNECTIONS: &str = "player.connections";
/// The number of queries after which a connection is closed.
pub const PLAYER_QUERIES_PER_CONNECTION: &str = "player.queries_per_connection";
/// The most unsettled queries of one connection.
pub const PLAYER_OUTSTANDING: &str = "player.outstanding_per_connection";
/// The seconds after which a connection that is not made is given up.
pub const PLAYER_CONNECT_TIMEOUT: &str = "player.connect_timeout_s";

/// How the player closes connections.
pub const PLAYER_CLOSE: &str = "player.close";
/// Whether connections resume the sessions of earlier ones.
pub const PLAYER_RESUME: &str = "player.resume";
/// The group for the exchange of keys that the player offers.
pub const PLAYER_TLS_GROUP: &str = "player.tls_group";
/// The cipher suite that the player offers.
pub const PLAYER_TLS_SUITE: &str = "player.tls_suite";
/// The type of key that the player accepts in a certificate.
pub const PLAYER_TLS_CERTIFICATE: &str = "player.tls_certificate";
/// The certificates that the player accepts of a server that runs already.
pub const PLAYER_TLS_TRUST: &str = "player.tls_trust";
/// The name in the certificate of a server that runs already.
pub const PLAYER_TLS_NAME: &str = "player.tls_name";
/// Whether the player sends early data.
pub const PLAYER_EARLY_DATA: &str = "player.early_data";
/// Whether queries that leave together share records of TLS.
pub const PLAYER_TLS_PACKING: &str = "player.tls_packing";
/// The limit of the player's bytes on their way over QUIC.
pub const PLAYER_CONGESTION: &str = "player.congestion";
/// How the player asks by HTTP.
pub const PLAYER_HTTP_METHOD: &str = "player.http_method";
/// The path that the player asks by HTTP.
pub const PLAYER_HTTP_PATH: &str = "player.http_path";
/// Bytes of each socket's receive and send buffers.
pub const PLAYER_BUFFER: &str = "player.buffer_bytes";
/// The source port of the first socket.
pub const PLAYER_LOCAL_PORT: &str = "player.local_port";
/// The device that frames pass.
pub const PLAYER_DEVICE: &str = "player.device";
/// The scheduling priority of the sending threads.
pub const PLAYER_PRIORITY: &str = "player.priority";
/// The seconds for which the player listens after its last query.
pub const PLAYER_DRAIN: &str = "player.drain_s";
/// The seconds after which the player gives up a query that is due.
pub const PLAYER_LAG: &str = "player.lag_s";
/// The seconds that a due query may wait for others.
pub const PLAYER_COALESCE: &str = "player.coalesce_s";

/// The prefix of zones and queries.
pub const DATASET: &str = "dataset.";
/// The recipe of zones and queries.
pub const DATASET_RECIPE: &str = "dataset.recipe";
/// The number of zones that load.
pub const DATASET_ZONES: &str = "dataset.zones";
/// The number of records in all zones together.
pub const DATASET_RECORDS: &str = "dataset.records";
/// The choice of names that queries ask for.
pub const DATASET_NAMES: &str = "dataset.names";
/// The name of the user's query file.
pub const DATASET_FILE: &str = "dataset.file";
/// The format of the query file.
pub const DATASET_FORMAT: &str = "dataset.format";
/// Whether lines that are no query are skipped.
pub const DATASET_SKIP_BAD: &str = "dataset.skip_bad";
/// The additions to every query.
pub const DATASET_EDNS: &str = "dataset.edns";
/// The traits that identify a client of a capture.
pub const DATASET_CLIENT: &str = "dataset.client";
/// The servers' ports in a capture.
pub const DATASET_CAPTURED_PORTS: &str = "dataset.captured_ports";
/// The servers in a capture.
pub const DATASET_CAPTURED_SERVERS: &str = "dataset.captured_servers";
/// The part of a capture.
pub const DATASET_WINDOW: &str = "dataset.window";
/// Slices of a capture that are played at once.
pub const DATASET_PILE: &str = "dataset.pile";

/// The size of the Internet in a box that the subject resolves in.
pub const INTERNET: &str = "internet";
/// The prefix of settings of an Internet in a box.
pub(super) const INTERNET_SETTING: &str = "internet.";
/// The share of queries that the subject can answer from its cache.
pub const INTERNET_HITS: &str = "internet.hits_percent";
/// How long the servers of the Internet take to answer.
pub const INTERNET_DELAY: &str = "internet.delay_ms";
/// See [`crate::choice::InternetAttack`].
pub const INTERNET_ATTACK: &str = "internet.attack";

/// The kind of path.
pub const PATH: &str = "path";
/// The prefix of the settings of a path.
pub const PATH_SETTING: &str = "path.";
/// The number of queues of a path's devices.
pub const PATH_QUEUES: &str = "path.queues";
/// The most packets in front of a path's devices.
pub const PATH_TXQUEUELEN: &str = "path.txqueuelen";
/// The cores that process received packets.
pub const PATH_RPS_CPUS: &str = "path.rps_cpus";
/// Whether received packets are joined.
pub const PATH_GRO: &str = "path.gro";
/// The prefix of sysctl settings of a path's network namespaces.
pub const PATH_SYSCTL: &str = "path.sysctl.";

/// The longest warm-up until the rate is steady.
pub const STEADY: &str = "steady";
/// The scenario that plays beside the good clients.
pub const SCENARIO: &str = "scenario";
/// The rate of the good clients beside a scenario whose rate is searched.
pub const GOOD_RATE: &str = "good_rate";
/// The event of each load.
pub const EVENT: &str = "subject.event";
/// The shares of the figure at which latency is measured.
pub const LATENCY_AT: &str = "latency_at_percent";
/// The number of trials in each start.
pub const ROUNDS: &str = "rounds";
/// The part of the cell in a comparison.
pub const COMPARED_AS: &str = "compared_as";
/// The prefix of settings of the subject's host.
pub const HOST: &str = "host.";
/// The niceness of the subject.
pub const HOST_NICE: &str = "host.nice";
/// The core that does all receive work of the path.
pub const HOST_RECEIVE_CORE: &str = "host.receive-core";

/// The first words of the names of settings of a host. After [`HOST`], they name settings that are set for a cell and
/// undone after it.
pub const HOST_SETTINGS: [&str; 18] = [
    "sysctl",
    "rps",
    "xps",
    "channels",
    "rings",
    "coalesce",
    "rss",
    "rss-fields",
    "feature",
    "napi-defer",
    "gro-flush",
    "napi-threaded",
    "irq",
    "irqs",
    "governor",
    "idle-states",
    "idle-state",
    "irqbalance",
];

/// The prefix of settings of a run over several hosts.
pub const HOSTS: &str = "hosts.";
/// The number of hosts that play.
pub const HOSTS_PLAYERS: &str = "hosts.players";
/// The number of source addresses of each of them.
pub const HOSTS_SOURCES: &str = "hosts.sources";

/// The subject, by its name.
pub const SUBJECT: &str = "subject";
/// The prefix of settings that kqps gives to every subject.
pub(super) const SUBJECT_SETTING: &str = "subject.";
/// The type of the subject's certificate.
pub const SUBJECT_CERTIFICATE: &str = "subject.certificate";
/// The I/O model of an echo.
pub const IO: &str = "io";
/// The workers that answer.
pub const WORKERS: &str = "workers";
/// The processes of an echo.
pub const PROCESSES: &str = "processes";
/// The threads of each process of an echo.
pub const THREADS: &str = "threads";
/// The cores of the subject.
pub const CORES: &str = "cores";
/// How the workers of an echo share sockets.
pub const SOCKETS: &str = "sockets";
/// How the workers of an echo share the sockets that accept connections.
pub const LISTENERS: &str = "listeners";
/// Whether an echo takes early data.
pub const EARLY_DATA: &str = "early_data";

/// Whether a factor is a setting of the subject's host that is set for a cell and undone after it. Its name is that of
/// `kqps host apply` after the prefix: `host.rps.eth0`.
pub fn is_host_setting(name: &str) -> bool {
    let family = name.strip_prefix(HOST).and_then(|name| name.split('.').next());
    family.is_some_and(|family| HOST_SETTINGS.contains(&family))
}

/// Whether a factor belongs to no subject and is one of very many: a sysctl of the path, or a setting of the host.
pub fn is_of_system(name: &str) -> bool {
    name.starts_with(PATH_SYSCTL) || is_host_setting(name)
}

/// Whether kqps gives this name a meaning of its own, so that no subject and no study may.
pub fn is_reserved(name: &str) -> bool {
    has_value(name) || [SUBJECT, CORES].contains(&name) || name != present(name)
}

/// Whether the word of this factor is read as a value.
pub(super) fn has_value(name: &str) -> bool {
    [PLAYER, DATASET, PATH_SETTING, INTERNET_SETTING, HOST, HOSTS, SUBJECT_SETTING]
        .iter()
        .any(|prefix| name.starts_with(prefix))
        || [PATH, INTERNET, STEADY, SCENARIO, GOOD_RATE, LATENCY_AT, ROUNDS, COMPARED_AS].contains(&name)
}

/// The present name of a factor. The first versions wrote `player_` for `player.`, and `zone_records`.
pub(super) fn present(name: &str) -> Cow<'_, str> {
    match name.strip_prefix("player_") {
        Some(setting) => format!("{PLAYER}{setting}").into(),
        None if name == "zone_records" => DATASET_RECORDS.into(),
        None => name.into(),
    }
}
