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

pub(super) const HINTS: &[Hint] = &[
    // dnsperf.
    Hint {
        commands: PLAYERS,
        typed: &["-v", "--verbose"],
        instead: "kqps dnsperf prints every reply; --json prints all counts, and -S 1s a line every second",
    },
    Hint {
        commands: PLAYERS,
        typed: &["-W"],
        instead: "warnings of the load are on standard output already; for errors write 2>&1",
    },
    Hint {
        commands: PLAYERS,
        typed: &["-O"],
        instead: "kqps has flags instead of extended options, such as --queries-per-connection; `kqps load --help` \
                  lists them, and kqps dnsperf has -O",
    },
    Hint { commands: PLAYERS, typed: &["-C"], instead: "the number of sockets is -c" },
    Hint {
        commands: PLAYERS,
        typed: &["-X"],
        instead: "`kqps load --help` lists the flags that kqps has; -Q sets a rate, and `kqps find` searches one",
    },
    Hint { commands: PLAYERS, typed: &["-H"], instead: "the long help is --help" },
    // Flags of `kqps load` that a search lacks, since it chooses its loads itself.
    Hint {
        commands: &["find"],
        typed: &["-Q", "--rate", "--qps", "--rps"],
        instead: "kqps find chooses the rates itself, between --min and --max; kqps load plays one",
    },
    Hint {
        commands: &["find"],
        typed: &["-q", "--outstanding"],
        instead: "kqps find plays rates, and no window; kqps load has -q",
    },
    Hint {
        commands: &["find"],
        typed: &["-l", "--duration", "--time"],
        instead: "the length of a trial is the --goal's, and --time-limit is that of the search",
    },
    Hint {
        commands: &["find"],
        typed: &["-n", "--repeat"],
        instead: "kqps find goes through the queries as often as it must; --time-limit says how long",
    },
    Hint {
        commands: &["find"],
        typed: &["-u", "--updates"],
        instead: "kqps find plays queries; kqps load plays updates",
    },
    Hint {
        commands: &["find"],
        typed: &["-y", "--tsig"],
        instead: "kqps find does not sign queries; kqps load does",
    },
    Hint {
        commands: &["find"],
        typed: &["-E", "--edns-option", "--ednsopt"],
        instead: "-e adds EDNS and -D the DO bit; a client subnet stands in the query file, and any other option in a \
                  binary one (-B); kqps load has -E",
    },
    // oha, k6, wrk, dnspyre, flame and kdig.
    Hint {
        commands: PLAYERS,
        typed: &["--concurrency", "--vus", "--parallel", "--workers"],
        instead: "-q is how many queries are outstanding, -c how many sockets or connections, -T how many threads",
    },
    Hint {
        commands: PLAYERS,
        typed: &["--number", "--requests", "--count", "--iterations", "--loop", "--loops", "-N"],
        instead: "-n is how many times all queries are sent, -l how long",
    },
    Hint { commands: &["load"], typed: &["-z"], instead: "-l is how long to send, such as -l 10s" },
    Hint { commands: PLAYERS, typed: &["-R"], instead: "kqps load sends at the rate of -Q" },
    Hint {
        commands: PLAYERS,
        typed: &["-P"],
        instead: "the transport is -m (udp, tcp, tls, https, quic), or the target's URL, such as tls://127.0.0.1",
    },
    Hint {
        commands: PLAYERS,
        typed: &["--udp", "--tcp", "--tls", "--dot", "--https", "--doh", "--quic", "--doq"],
        instead: "the transport is -m (udp, tcp, tls, https, quic), or the target's URL, such as tls://127.0.0.1",
    },
    Hint { commands: PLAYERS, typed: &["-4", "--ipv4"], instead: "for IPv4 alone write -f inet" },
    Hint { commands: PLAYERS, typed: &["-6", "--ipv6"], instead: "for IPv6 alone write -f inet6" },
    Hint { commands: PLAYERS, typed: &["--do", "--dnssec-ok"], instead: "-D sets the DO bit" },
    Hint {
        commands: PLAYERS,
        typed: &["-k", "--no-verify", "--skip-verify"],
        instead: "--insecure accepts any certificate; --ca FILE accepts one that you know",
    },
    Hint {
        commands: PLAYERS,
        typed: &["--type", "--qtype", "--types", "--name", "-r", "-g"],
        instead: "names and types stand in the query file (-d), a line each: `www.example.test A`; `kqps gen queries` \
                  makes one",
    },
    Hint {
        commands: PLAYERS,
        typed: &["--pcap", "--capture", "--read", "--replay"],
        instead: "-d takes captures as well: pcap, pcapng and dnstap",
    },
    Hint {
        commands: &["load"],
        typed: &["--out", "-o", "--output", "--write", "--report"],
        instead: "a load prints its result; --json >FILE keeps it, and kqps find and kqps run have --out",
    },
    Hint {
        commands: PLAYERS,
        typed: &["--csv", "--format", "--output-format", "--plot"],
        instead: "--json prints one JSON object; kqps export writes the tables of a run as CSV",
    },
    Hint {
        commands: PLAYERS,
        typed: &["--latency", "--histogram", "--distribution", "--percentiles"],
        instead: "latencies are always printed, with their percentiles; --json has the histogram",
    },
    Hint {
        commands: PLAYERS,
        typed: &["--prometheus"],
        instead: "--metrics ADDR offers the counts to Prometheus",
    },
    Hint {
        commands: &["load"],
        typed: &["--stage", "--stages", "--qps-flow", "--ramp"],
        instead: "kqps load plays one rate (-Q), or the times of a capture (-d FILE.pcap --speed 2x); kqps find searches \
                  for the highest rate",
    },
    Hint {
        commands: PLAYERS,
        typed: &["--quiet", "--silent", "--no-tui"],
        instead: "standard output has the result alone; 2>/dev/null leaves the rest out, and --tui is off unless asked for",
    },
    Hint {
        commands: PLAYERS,
        typed: &["--warmup", "--warm-up"],
        instead: "play a short load before: kqps load … -l 2s",
    },
    Hint {
        commands: PLAYERS,
        typed: &["--size", "--payload", "--bufsize"],
        instead: "-e adds EDNS with its usual size; a binary query file (-B) has any other",
    },
    Hint {
        commands: PLAYERS,
        typed: &["--delay", "--think-time"],
        instead: "-Q sets the rate of all queries together",
    },
    Hint { commands: PLAYERS, typed: &["--pid"], instead: "--subject PID watches this process" },
    // Runs and comparisons.
    Hint { commands: &["run"], typed: &["-o"], instead: "--out DIR is the folder of the run" },
    Hint {
        commands: &["run"],
        typed: &["--duration", "-l"],
        instead: "--budget is how long the whole run may take",
    },
    Hint {
        commands: &["run"],
        typed: &["--server", "-s"],
        instead: "--subject nsd measures a server that kqps starts, --target udp://ADDR one that runs already",
    },
    Hint {
        commands: &["run"],
        typed: &["--study"],
        instead: "the study stands by itself: kqps run name-servers",
    },
    Hint {
        commands: &["run"],
        typed: &["-Q", "--rate", "--qps"],
        instead: "a run searches for the highest rate; kqps load plays one",
    },
    Hint {
        commands: &["run"],
        typed: &["--zone"],
        instead: "a run makes its own zone of --records; {zone} in --command is its file",
    },
    Hint {
        commands: &["compare"],
        typed: &["--old", "--new", "--base", "--baseline", "--before", "--after"],
        instead: "the sides are --a and --b; B is judged beside A",
    },
    Hint {
        commands: &["compare", "history check"],
        typed: &["--threshold", "--max-regression"],
        instead: "--fail-on slower:2% ends with status 3 if B is slower by 2 % or more",
    },
    // Servers.
    Hint {
        commands: &["serve echo", "serve auth", "serve cache", "serve front"],
        typed: &["--port", "-p", "--address", "--bind", "-b"],
        instead: "--listen ADDR:PORT is where the server listens, such as --listen 127.0.0.1:5300",
    },
    Hint {
        commands: &["serve echo", "serve auth", "serve cache", "serve front"],
        typed: &["--workers", "-w", "-t", "-T"],
        instead: "--threads is how many threads each process has, --processes how many processes there are",
    },
    Hint {
        commands: &["serve cache"],
        typed: &["--upstream", "--backend", "--resolver"],
        instead: "--forward ADDR asks this server about all names, --stub ZONE=ADDR about those of a zone",
    },
    Hint {
        commands: &["serve front"],
        typed: &["--upstream", "--forward", "--server"],
        instead: "--backend udp://ADDR:PORT is a server behind the front",
    },
    // Commands.
    Hint {
        commands: &[""],
        typed: &["bench", "benchmark", "measure", "test", "start"],
        instead: "kqps alone measures this machine; kqps find measures a server that runs already, kqps run --command \
                  'my-server -p {port} -z {zone}' one of your own",
    },
    Hint {
        commands: &[""],
        typed: &["query", "dig", "ping", "replay", "play", "flame", "queryperf", "kxdpgun"],
        instead: "kqps load 127.0.0.1:5300 -d FILE plays queries, or a capture, at a server",
    },
    Hint {
        commands: &[""],
        typed: &["echo", "auth", "cache", "front", "server"],
        instead: "kqps serve starts a reference server: echo, auth, cache or front",
    },
    Hint {
        commands: &[""],
        typed: &["zone", "queries", "generate", "recipe"],
        instead: "kqps gen makes zones, queries and captures",
    },
    Hint {
        commands: &[""],
        typed: &["capture", "pcap", "stats", "info"],
        instead: "kqps show FILE shows what is in a capture",
    },
    Hint {
        commands: &[""],
        typed: &["study", "studies"],
        instead: "kqps run STUDY runs a study; `kqps run --help` says more",
    },
    Hint { commands: &[""], typed: &["diff"], instead: "kqps compare compares two builds, or two runs" },
    Hint {
        commands: &[""],
        typed: &["page", "html", "plot"],
        instead: "kqps report DIR writes the page of a run",
    },
    Hint {
        commands: &[""],
        typed: &["list", "ls"],
        instead: "kqps history page lists the runs; a run is a folder",
    },
    Hint {
        commands: &[""],
        typed: &["tune", "sysctl", "doctor", "check"],
        instead: "kqps probe shows what works on this host, kqps host advise what to set",
    },
    Hint { commands: &[""], typed: &["resume", "continue"], instead: "kqps run --resume goes on with a run" },
    Hint {
        commands: &[""],
        typed: &["subjects"],
        instead: "kqps run --subject NAME measures one; `kqps run --help` names them",
    },
    Hint { commands: &[""], typed: &["version"], instead: "kqps --version" },
    Hint {
        commands: &["history"],
        typed: &["list", "ls", "show", "log", "diff", "report", "html"],
        instead: "kqps history check prints the changes, kqps history page writes a page with all runs, kqps history \
                  export csv a table",
    },
    Hint {
        commands: &["history"],
        typed: &["init", "create", "import"],
        instead: "kqps history add DIR puts a run into the history, and makes it if there is none",
    },
    Hint {
        commands: &["serve"],
        typed: &["authoritative", "nsd"],
        instead: "kqps serve auth --zone FILE answers from a zone",
    },
    Hint {
        commands: &["serve"],
        typed: &["forwarder", "resolver", "recursor", "forward"],
        instead: "kqps serve cache --forward ADDR is a caching forwarder",
    },
    Hint {
        commands: &["serve"],
        typed: &["proxy", "dnsdist", "balancer"],
        instead: "kqps serve front --backend udp://ADDR:PORT passes queries on in batches",
    },
    Hint {
        commands: &["host"],
        typed: &["set", "tune", "revert", "restore", "list"],
        instead: "kqps host apply SETTING=VALUE sets, kqps host undo takes back, kqps host status lists what is set",
    },
];
