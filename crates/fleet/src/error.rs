//! Why another host cannot be used, in one sentence each.

use std::io;

use kqps_files::toml_file::FileError;

use crate::identity::Identity;
use crate::message::LINE_MOST;

/// The reason why a host, or the file that names the hosts, cannot be used. `host` is the name in that file. `said` is
/// what the program that reaches the host printed last.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // the fields are described above, and the sentences say the rest
pub enum HostsError {
    /// The hosts' file cannot be read, or its text has an error.
    #[error(transparent)]
    File(#[from] FileError),
    /// The inventory cannot be listed, or lacks something.
    #[error("{file}: {what}")]
    Inventory { file: String, what: String },
    /// No name service knows the host.
    #[error(
        "{host}: no host has the name that `reach` gives ({said}); check the hosts' file and ~/.ssh/config"
    )]
    UnknownHost { host: String, said: String },
    /// No connection can be made.
    #[error("{host} cannot be reached: {said}")]
    Unreachable { host: String, said: String },
    /// The host's key is another than the known one.
    #[error(
        "{host} has another host key than the one in known_hosts; if it was installed anew, remove the old key by \
         `ssh-keygen -R`, otherwise another machine answers in its place"
    )]
    WrongKey { host: String },
    /// The host's key is not known.
    #[error("{host}: its host key is not in known_hosts; connect once by `ssh` and check the key ({said})")]
    UnknownKey { host: String, said: String },
    /// The host does not accept the user's keys.
    #[error("{host} refuses the login, which must work without a password: {said}")]
    Denied { host: String, said: String },
    /// The program that reaches the host cannot be started here.
    #[error("{host}: cannot start `{program}` here: {error}")]
    NotStarted { host: String, program: String, error: io::Error },
    /// The host has no such program.
    #[error(
        "{host} has no program `{program}` ({said}); install kqps there, set `kqps` in the hosts' file, or add --push"
    )]
    NoProgram { host: String, program: String, said: String },
    /// The program there is not executable.
    #[error("{host} cannot execute `{program}`: {said}")]
    NotExecutable { host: String, program: String, said: String },
    /// The program there is for another processor than the host's.
    #[error("`{program}` on {host} is built for another processor than that host's: {said}")]
    ForeignProgram { host: String, program: String, said: String },
    /// The program there is no kqps that knows other hosts.
    #[error(
        "`{program}` on {host} has no command `agent`: it is another program or an older kqps ({said}); install this \
         version there or add --push"
    )]
    NoAgent { host: String, program: String, said: String },
    /// The program that reaches the host ended before the agent answered.
    #[error("{host} did not answer: {reason}")]
    NoAnswer { host: String, reason: String },
    /// The agent did not answer in time.
    #[error("{host} did not answer within {within_s} s{said}")]
    Silent { host: String, within_s: u64, said: String },
    /// The host has another architecture.
    #[error(
        "{host} has the architecture {theirs} and this kqps {ours}; all hosts of a run need the same build"
    )]
    OtherArch { host: String, theirs: String, ours: String },
    /// The kqps there is another build.
    #[error("kqps on {host} is {theirs}, and here it is {ours}; install the same build there or add --push")]
    Differs { host: String, theirs: Box<Identity>, ours: Box<Identity> },
    /// The agent does not work for this controller.
    #[error("{host} refuses: {reason}")]
    Refused { host: String, reason: String },
    /// The host was reached, and is not any more.
    #[error("{host} was lost: {reason}")]
    Lost { host: String, reason: String },
    /// The other side sent what this version does not know.
    #[error("{host} sent what is no message of kqps: {what}")]
    Nonsense { host: String, what: String },
    /// A job is too long for one line.
    #[error("the job for {host} has {bytes} bytes, and a line has {most} at most", most = LINE_MOST)]
    TooLong { host: String, bytes: usize },
    /// A job cannot be written as JSON.
    #[error("the job for {host} cannot be written: {what}")]
    Unwritable { host: String, what: String },
    /// The host takes nothing any more, and much waits for it already.
    #[error("{host} does not read what is sent to it; {queued} bytes wait for it")]
    Blocked { host: String, queued: usize },
    /// A program cannot be read, to be compared or pushed.
    #[error("cannot read the program {file}: {error}")]
    Program { file: String, error: io::Error },
    /// The program needs libraries, which other hosts may lack.
    #[error(
        "{file} is not a static program, and other hosts may lack its libraries; build kqps with --target \
         x86_64-unknown-linux-musl and run that one, or install it on the hosts and leave out --push"
    )]
    NotStatic { file: String },
    /// The program could not be brought to the host.
    #[error("cannot bring kqps to {host}: {reason}")]
    NotPushed { host: String, reason: String },
    /// Standard input or output of an agent cannot be used, or a thread cannot be started.
    #[error("the agent cannot work: {0}")]
    Agent(io::Error),
}
