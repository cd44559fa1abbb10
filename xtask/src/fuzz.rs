//! `cargo xtask fuzz TARGET`: libFuzzer with a stable compiler, guided by the code that its inputs reach. The
//! tests run a smoke pass of every target; this command is for longer runs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::ValueEnum;

use kqps_programs::shell;

use crate::workspace;

/// The flags that report the code reached by an input to the fuzzer (LLVM's `SanitizerCoverage`), and that
/// enable the assertions of the standard library and our own.
const FLAGS: &str = "--cfg fuzzing -Cdebug-assertions -Coverflow-checks -Ccodegen-units=1 \
                     -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
                     -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// The longest input, bytes.
const INPUT_BYTES: u32 = 4096;

/// The longest time for one input, seconds.
const INPUT_S: u32 = 10;

/// A fuzz target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// Reading messages and names
    Message,
    /// Reading query files
    QueryFile,
    /// Reading captures of packets
    Capture,
    /// Reading master files
    ZoneFile,
    /// Reading lists of zones and configurations of BIND
    ZoneList,
    /// Reading the file of a run
    Store,
    /// Reading and laying out study files
    StudyFile,
    /// Reading definitions of subjects
    SubjectFile,
    /// The whole path from a query to its answer
    Answer,
    /// A cache's checks of a reply, and its answers from it
    Cache,
    /// Reading connections by TCP in a capture
    CaptureTcp,
    /// Reading dnstap
    Dnstap,
    /// A client's connection, cut anywhere
    Connection,
    /// A client's connection in TLS, cut anywhere
    SecureConnection,
    /// Early data over TLS and HTTPS, cut anywhere
    EarlyData,
    /// The player's reassembly of replies on a connection
    PlayerFraming,
    /// The end of a client in TLS
    TlsClient,
    /// The end of a server in TLS
    TlsServer,
    /// The end of a client by HTTP/2
    HttpClient,
    /// The end of a server by HTTP/2
    HttpServer,
    /// The end of a client over QUIC
    QuicClient,
    /// The end of a server over QUIC
    QuicServer,
    /// Frames, and segments that arrive for connections past the kernel
    TcpSegment,
    /// Framing of the replies on a back end's connection
    FrontFraming,
    /// A front's handling of a back end's reply
    FrontReply,
    /// A caching server's handling of a query and of a server's reply
    UpstreamReply,
    /// Packets that were tapped at an interface
    TappedPacket,
    /// Requests for the live pages
    WebRequest,
    /// Messages between a controller and the agents on other hosts
    HostMessage,
}

impl Target {
    /// The program, and the folder of its corpus.
    fn name(self) -> String {
        self.to_possible_value().expect("a name").get_name().replace('-', "_")
    }
}

/// The options of `cargo xtask fuzz`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The target
    target: Target,
    /// Executions
    #[arg(long, default_value_t = 1_000_000)]
    runs: u64,
    /// The seed of the mutations, which also depend on the findings of earlier passes
    #[arg(long, default_value_t = 1)]
    seed: u32,
}

/// Builds the target and runs it. Inputs that reached new code are kept in `target/fuzz/found`, and a failing
/// one in `target/fuzz/failed`. Either can be added to `fuzz/corpus`, with which every pass begins.
pub fn run(options: &Options) -> Result<()> {
    let name = options.target.name();
    let folder = workspace::metadata()?.target_directory.join("fuzz");
    let program = build(&folder, &name)?;
    let (found, failed) = (folder.join("found").join(&name), folder.join("failed").join(&name));
    for folder in [&found, &failed] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let mut fuzzer = std::process::Command::new(program);
    fuzzer.arg(format!("-runs={}", options.runs)).arg(format!("-seed={}", options.seed));
    fuzzer.arg(format!("-max_len={INPUT_BYTES}")).arg(format!("-timeout={INPUT_S}"));
    fuzzer.arg(format!("-artifact_prefix={}/", failed.display())).arg("-print_final_stats=1");
    fuzzer.arg(&found).arg(corpus(&name));
    shell::run(&mut fuzzer)
}

fn build(folder: &Path, name: &str) -> Result<PathBuf> {
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--release", "--package", "kqps-fuzz", "--features", "libfuzzer", "--bin", name]);
    // With an explicit target, the flags do not apply to build scripts and macros.
    let host = host()?;
    cargo.arg("--target").arg(&host).arg("--target-dir").arg(folder).env("RUSTFLAGS", FLAGS);
    shell::run(&mut cargo)?;
    Ok(folder.join(host).join("release").join(name))
}

/// The compiler's name for this machine.
fn host() -> Result<String> {
    let output = shell::read(std::process::Command::new("rustc").arg("-vV"))?;
    let host = output.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not report what it builds for")?.to_owned())
}

fn corpus(name: &str) -> PathBuf {
    workspace::root().join("fuzz/corpus").join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_one_of_the_package_and_has_a_corpus() {
        let manifest = fs::read_to_string(workspace::root().join("fuzz/Cargo.toml")).expect("a manifest");
        let programs = manifest.lines().filter_map(|line| line.strip_prefix("path = \"fuzz_targets/"));
        let mut programs: Vec<_> = programs.filter_map(|rest| rest.strip_suffix(".rs\"")).collect();
        let mut names: Vec<_> = Target::value_variants().iter().map(|target| target.name()).collect();
        programs.sort_unstable();
        names.sort_unstable();
        assert_eq!(programs, names);
        assert!(names.iter().all(|name| corpus(name).is_dir()));
    }
}
