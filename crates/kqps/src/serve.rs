//! `kqps serve`: the reference servers.

mod auth;
mod cache;
mod connections;
mod echo;
mod front;
pub(crate) mod internet;
mod issuer;
mod options;
mod place;
mod status;
mod tls;
pub(crate) mod words;
mod zones;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Subcommand;
use kqps_front::FrontSettings;
use kqps_server::{ServeError, Server, ServerSetup, Service};

use crate::exit::{Lines, bad_input};
use crate::print;
use crate::signals;
use options::Serving;
use tls::{Tls, TlsArgs};
use zones::ZoneFiles;

const EXAMPLES: &str = "\
Examples:
  kqps serve echo --listen 127.0.0.1:5300 --threads 2
  kqps serve auth --zone bench.test=bench.zone
  kqps serve cache --forward 127.0.0.1:5301 --threads 2
  kqps serve internet --size small -- unbound -d -c my.conf";

/// Run a reference server
///
/// A signal stops the server, which then prints its counts. Its exit status is 0.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    server: ServerKind,
}

#[derive(Subcommand)]
enum ServerKind {
    Echo(Box<echo::Args>),
    Auth(Box<auth::Args>),
    Cache(Box<cache::Args>),
    Front(Box<front::Args>),
    Internet(Box<internet::Args>),
    Status(status::Args),
    /// Run as a worker process of another kqps, which sends the setup on standard input
    #[command(hide = true)]
    Worker,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.server {
        ServerKind::Echo(echo) => serve(&echo.serving, Some(&echo.tls), Box::new(echo.service()?), None),
        ServerKind::Auth(auth) => serve(&auth.serving, Some(&auth.tls), Box::new(auth.service()?), None),
        ServerKind::Cache(cache) => {
            let service = cache.service()?;
            let upstream = service.settings.upstream.clone();
            serve(&cache.serving, Some(&cache.tls), Box::new(service), Some(&upstream))
        }
        ServerKind::Front(front) => {
            let service = front.service()?;
            let settings = service.settings.clone();
            serve(&front.serving, None, Box::new(service), Some(&settings))
        }
        ServerKind::Internet(internet) => internet.run(),
        ServerKind::Status(status) => {
            signals::watch()?;
            status.run()
        }
        ServerKind::Worker => {
            kqps_server::serve::run_as_child(Arc::new(ZoneFiles))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Runs a server, with the flags of TLS if it can have that. `front` has the settings of back ends if it has some.
fn serve(
    serving: &Serving,
    tls: Option<&TlsArgs>,
    service: Box<dyn Service>,
    front: Option<&FrontSettings>,
) -> anyhow::Result<ExitCode> {
    let tls = serving.tls(tls)?;
    let setup = serving.setup(tls.as_ref(), service.transports().tcp)?;
    let server = match start(&setup, service)? {
        Starting::Started(server) => *server,
        Starting::Stopped(status) => return Ok(status),
    };
    server.notes().iter().for_each(|note| eprintln!("kqps: warning: {note}"));
    let ca = tls.as_ref().and_then(Tls::ca);
    words::ready(&mut print::Out, serving.json, (&setup, ca), &server, front)?;
    let ended = server.run(serving.time, |loaded| {
        let _ = words::reloaded(&mut print::Out, serving.json, &loaded);
    });
    let printed = words::counts(&mut print::Out, serving.json, &ended.report);
    ended.failed.map_or(Ok(()), Err)?;
    printed?;
    Ok(ExitCode::SUCCESS)
}

/// The outcome of starting a server.
enum Starting {
    Started(Box<Server>),
    /// A signal ended it before it could answer.
    Stopped(ExitCode),
}

/// Starts a server, with errors in the program's words.
fn start(setup: &ServerSetup, service: Box<dyn Service>) -> anyhow::Result<Starting> {
    match Server::start(setup, service) {
        Ok(server) => Ok(Starting::Started(Box::new(server))),
        Err(ServeError::Setup(why)) => Err(bad_input(why)),
        // The text may name several files, each in a line.
        Err(ServeError::Zones(text)) => Err(anyhow::Error::new(Lines { text, is_about_input: true })),
        Err(error @ ServeError::Stopped { signal }) => {
            eprintln!("kqps: {error}");
            Ok(Starting::Stopped(ExitCode::from(signals::status_of(signal))))
        }
        Err(error) => Err(error.into()),
    }
}
