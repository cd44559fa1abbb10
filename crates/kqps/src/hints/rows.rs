//! The words of other tools: dnsperf, oha, k6, wrk, dnspyre, flame and kdig, and usual slips.

/// A flag of other tools that has the meaning of a flag of kqps.
pub(super) struct Alias {
    /// Commands whose flag it is.
    pub(super) commands: &'static [&'static str],
    /// The long flag of kqps.
    pub(super) flag: &'static str,
    /// The long flags of other tools.
    pub(super) typed: &'static [&'static str],
}

const PLAYERS: &[&str] = &["load", "find"];

pub(super) const ALIASES: &[Alias] = &[
    Alias { commands: &["load"], flag: "rate", typed: &["qps", "rps", "max-qps", "rate-limit"] },
    Alias { commands: &["load"], flag: "duration", typed: &["time", "time-limit", "runtime"] },
    Alias { commands: &["find"], flag: "time-limit", typed: &["budget"] },
    Alias { commands: &["run", "compare"], flag: "budget", typed: &["time-limit", "time"] },
    Alias { commands: PLAYERS, flag: "sockets", typed: &["clients"] },
    Alias { commands: PLAYERS, flag: "mode", typed: &["protocol", "transport"] },
    Alias { commands: PLAYERS, flag: "queries", typed: &["file", "datafile", "query-file", "input"] },
    Alias { commands: PLAYERS, flag: "server", typed: &["host", "resolver", "nameserver"] },
    Alias { commands: PLAYERS, flag: "edns", typed: &["edns0"] },
    Alias { commands: &["load"], flag: "edns-option", typed: &["ednsopt"] },
    Alias { commands: PLAYERS, flag: "queries-per-connection", typed: &["query-per-conn"] },
    Alias { commands: PLAYERS, flag: "http-method", typed: &["doh-method"] },
    Alias { commands: PLAYERS, flag: "ca", typed: &["cacert", "tls-ca"] },
    Alias { commands: PLAYERS, flag: "server-name", typed: &["sni", "tls-hostname", "tls-sni"] },
    Alias { commands: PLAYERS, flag: "local", typed: &["source", "bind", "local-address", "source-address"] },
    Alias { commands: PLAYERS, flag: "local-port", typed: &["source-port"] },
    Alias { commands: &["find", "run", "compare"], flag: "out", typed: &["output"] },
    Alias { commands: &["run"], flag: "subject", typed: &["subjects", "servers"] },
];

/// A flag or command that users of other tools type, with the words of kqps for it.
pub(super) struct Hint {
    /// The commands that lack the word; the empty one is `kqps` itself.
    pub(super) commands: &'static [&'static str],
    pub(super) typed: &'static [&'static str],
    pub(super) instead: &'static str,
}

/// Hints from rows of `commands, what is typed => the words of kqps for it`.
macro_rules! hints {
    ($($commands:expr, $typed:expr => $instead:expr;)*) => {
        &[$(Hint { commands: $commands, typed: $typed, instead: $instead }),*]
    };
}

pub(super) const HINTS: &[Hint] = hints! {
    // dnsperf.
    PLAYERS, &["-v", "--verbose"] =>
        "kqps dnsperf prints every reply; --json prints all counts, and -S 1s a line every second";
    PLAYERS, &["-W"] => "warnings of the load are on standard output already; for errors write 2>&1";
    PLAYERS, &["-O"] =>
        "kqps has flags instead of extended options, such as --queries-per-connection; `kqps load --help` \
         lists them, and kqps dnsperf has -O";
    PLAYERS, &["-C"] => "the number of sockets is -c";
    PLAYERS, &["-X"] =>
        "`kqps load --help` lists the flags that kqps has; -Q sets a rate, and `kqps find` searches one";
    PLAYERS, &["-H"] => "the long help is --help";
    // Flags of `kqps load` that a search lacks, since it chooses its loads itself.
    &["find"], &["-Q", "--rate", "--qps", "--rps"] =>
        "kqps find chooses the rates itself, between --min and --max; kqps load plays one";
    &["find"], &["-q", "--outstanding"] => "kqps find plays rates, and no window; kqps load has -q";
    &["find"], &["-l", "--duration", "--time"] =>
        "the length of a trial is the --goal's, and --time-limit is that of the search";
    &["find"], &["-n", "--repeat"] =>
        "kqps find goes through the queries as often as it must; --time-limit says how long";
    &["find"], &["-u", "--updates"] => "kqps find plays queries; kqps load plays updates";
    &["find"], &["-y", "--tsig"] => "kqps find does not sign queries; kqps load does";
    &["find"], &["-E", "--edns-option", "--ednsopt"] =>
        "-e adds EDNS and -D the DO bit; a client subnet stands in the query file, and any other option in a \
         binary one (-B); kqps load has -E";
    // oha, k6, wrk, dnspyre, flame and kdig.
    PLAYERS, &["--concurrency", "--vus", "--parallel", "--workers"] =>
        "-q is how many queries are outstanding, -c how many sockets or connections, -T how many threads";
    PLAYERS, &["--number", "--requests", "--count", "--iterations", "--loop", "--loops", "-N"] =>
        "-n is how many times all queries are sent, -l how long";
    &["load"], &["-z"] => "-l is how long to send, such as -l 10s";
    PLAYERS, &["-R"] => "kqps load sends at the rate of -Q";
    PLAYERS, &["-P", "--udp", "--tcp", "--tls", "--dot", "--https", "--doh", "--quic", "--doq"] =>
        "the transport is -m (udp, tcp, tls, https, quic), or the target's URL, such as tls://127.0.0.1";
    PLAYERS, &["-4", "--ipv4"] => "for IPv4 alone write -f inet";
    PLAYERS, &["-6", "--ipv6"] => "for IPv6 alone write -f inet6";
    PLAYERS, &["--do", "--dnssec-ok"] => "-D sets the DO bit";
    PLAYERS, &["-k", "--no-verify", "--skip-verify"] =>
        "--insecure accepts any certificate; --ca FILE accepts one that you know";
    PLAYERS, &["--type", "--qtype", "--types", "--name", "-r", "-g"] =>
        "names and types stand in the query file (-d), a line each: `www.example.test A`; `kqps gen queries` \
         makes one";
    PLAYERS, &["--pcap", "--capture", "--read", "--replay"] =>
        "-d takes captures as well: pcap, pcapng and dnstap";
    &["load"], &["-o", "--output", "--write", "--report"] =>
        "--out DIR keeps the record and a page, and --json >FILE the record alone";
    PLAYERS, &["--csv", "--format", "--output-format", "--plot"] =>
        "--json prints one JSON object; kqps export writes the tables of a run as CSV";
    PLAYERS, &["--latency", "--histogram", "--distribution", "--percentiles"] =>
        "latencies are always printed, with their percentiles; --json has the histogram";
    PLAYERS, &["--prometheus"] => "--metrics ADDR offers the counts to Prometheus";
    &["load"], &["--stage", "--stages", "--qps-flow"] =>
        "kqps load --steps 10k,20k,50k/5s plays rates in turn, --course FILE those of a file, and --ramp 1k..200k/10s \
         a rising one";
    &["load"], &["--attack", "--flood", "--slowloris"] =>
        "--hostile KIND plays connections of attackers, --scenario NAME classes of attackers beside a load";
    &["find"], &["--hostile"] => "kqps find takes attackers as a scenario: --scenario handshakes, or a file";
    PLAYERS, &["--quiet", "--silent", "--no-tui"] =>
        "standard output has the result alone; 2>/dev/null leaves the rest out, and --tui is off unless asked for";
    PLAYERS, &["--warmup", "--warm-up"] => "play a short load before: kqps load … -l 2s";
    PLAYERS, &["--size", "--payload", "--bufsize"] =>
        "-e adds EDNS with its usual size; a binary query file (-B) has any other";
    PLAYERS, &["--delay", "--think-time"] => "-Q sets the rate of all queries together";
    PLAYERS, &["--pid"] => "--subject PID watches this process";
    // Runs and comparisons.
    &["run"], &["-o"] => "--out DIR is the folder of the run";
    &["run"], &["--duration", "-l"] => "--budget is how long the whole run may take";
    &["run"], &["--server", "-s"] =>
        "--subject nsd measures a server that kqps starts, --target udp://ADDR one that runs already";
    &["run"], &["--study"] => "the study stands by itself: kqps run name-servers";
    &["run"], &["-Q", "--rate", "--qps"] => "a run searches for the highest rate; kqps load plays one";
    &["run"], &["--zone"] => "a run makes its own zone of --records; {zone} in --command is its file";
    &["compare"], &["--old", "--new", "--base", "--baseline", "--before", "--after"] =>
        "the sides are --a and --b; B is judged beside A";
    &["compare", "history check"], &["--threshold", "--max-regression"] =>
        "--fail-on slower:2% ends with status 3 if B is slower by 2 % or more";
    // Servers.
    &["serve echo", "serve auth", "serve cache", "serve front"], &["--port", "-p", "--address", "--bind", "-b"] =>
        "--listen ADDR:PORT is where the server listens, such as --listen 127.0.0.1:5300";
    &["serve echo", "serve auth", "serve cache", "serve front", "serve internet"],
    &["--workers", "-w", "-t", "-T"] =>
        "--threads is how many threads each process has, --processes how many processes there are";
    &["serve cache"], &["--upstream", "--backend", "--resolver"] =>
        "--forward ADDR asks this server about all names, --stub ZONE=ADDR about those of a zone";
    &["serve internet"], &["--listen", "--port", "-p", "--address", "--bind"] =>
        "servers are at the addresses of --server, on port 53 of a network of their own; --loopback PORT is a port of \
         this host";
    &["serve internet"], &["--netns", "--name"] => "--namespace NAME names the resolver's network";
    &["serve internet"], &["--zone", "--zones"] =>
        "--server ADDR=FILE gives the server at this address the zone of a file";
    &["serve internet"], &["--resolver", "--command"] =>
        "the command of a resolver follows --: kqps serve internet … -- unbound -d -c my.conf";
    &["serve front"], &["--upstream", "--forward", "--server"] =>
        "--backend udp://ADDR:PORT is a server behind the front";
    // Commands.
    &[""], &["bench", "benchmark", "measure", "test", "start"] =>
        "kqps alone measures this machine; kqps find measures a server that runs already, kqps run --command \
         'my-server -p {port} -z {zone}' one of your own";
    &[""], &["query", "dig", "ping", "replay", "play", "flame", "queryperf", "kxdpgun"] =>
        "kqps load 127.0.0.1:5300 -d FILE plays queries, or a capture, at a server";
    &[""], &["echo", "auth", "cache", "front", "internet", "server"] =>
        "kqps serve starts a reference server: echo, auth, cache, front or internet";
    &[""], &["zone", "queries", "generate", "recipe"] => "kqps gen makes zones, queries and captures";
    &[""], &["capture", "pcap", "stats", "info"] => "kqps show FILE shows what is in a capture";
    &[""], &["study", "studies"] => "kqps run STUDY runs a study; `kqps run --help` says more";
    &[""], &["diff"] => "kqps compare compares two builds, or two runs";
    &[""], &["page", "html", "plot"] => "kqps report DIR writes the page of a run";
    &[""], &["list", "ls"] => "kqps history page lists the runs; a run is a folder";
    &[""], &["tune", "sysctl", "doctor"] =>
        "kqps probe shows what works on this host, kqps host advise what to set";
    &[""], &["resume", "continue"] => "kqps run --resume goes on with a run";
    &[""], &["subjects"] => "kqps run --subject NAME measures one; `kqps run --help` names them";
    &[""], &["version"] => "kqps --version";
    &["history"], &["list", "ls", "show", "log", "diff", "report", "html"] =>
        "kqps history check prints the changes, kqps history page writes a page with all runs, kqps history \
         export csv a table";
    &["history"], &["init", "create", "import"] =>
        "kqps history add DIR puts a run into the history, and makes it if there is none";
    &["serve"], &["authoritative", "nsd"] => "kqps serve auth --zone FILE answers from a zone";
    &["serve"], &["forwarder", "resolver", "recursor", "forward"] =>
        "kqps serve cache --forward ADDR is a caching forwarder";
    &["serve"], &["root", "world", "tree", "hierarchy", "ldplayer"] =>
        "kqps serve internet --server ADDR=FILE is all name servers that a resolver asks";
    &["serve"], &["proxy", "dnsdist", "balancer"] =>
        "kqps serve front --backend udp://ADDR:PORT passes queries on in batches";
    &["host"], &["set", "tune", "revert", "restore", "list"] =>
        "kqps host apply SETTING=VALUE sets, kqps host undo takes back, kqps host status lists what is set";
};
