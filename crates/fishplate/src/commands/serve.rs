//! `fishplate serve`: programs as services.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use clap::builder::PossibleValuesParser;
use fishplate_jobs::engine::RunMode;
use fishplate_jobs::function::builtin;
use fishplate_server::assembly::StoreCheck;
use fishplate_server::authentication::jwt::JwtSettings;
use fishplate_server::authentication::jwt_keys::KeySource;
use fishplate_server::host::PublicAddress;
use fishplate_server::http::tls::{ServerTls, TlsFiles};
use fishplate_server::settings::Settings;
use fishplate_server::{assembly, http};
use ipnet::IpNet;

use super::hosting::{HostingArgs, ServiceArgs};
use crate::output::failure::UsageError;

/// Offers programs as web services.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  One program, described by its command line (paper 000, Figure 4):
    fishplate serve -n arithmetic-test -U urn:test -N 'Arithmetic Server' \\
      -- ./add.sh '[in val x:int]' '[in val y:int]' '>' '[out file result:int]'

  Many services on one port, from files and directories, for users who log in:
    fishplate serve ccx.toml services/ --listen 0.0.0.0:443 --login \\
      --tls-cert fullchain.pem --tls-key privkey.pem \\
      --public-url https://solver.example.org/fishplate

  A free port, state in a directory of its own, another limit:
    fishplate serve ccx.toml --listen 127.0.0.1:0 --data ./state --limit max_running=8

  Functions of Fishplate itself, to measure calls with:
    fishplate serve --builtin matrix

When it is ready it prints a line NAME URL for each service on standard output.
Running jobs outlive the server: start it again with the same --data to find them.
Ctrl-C stops the server, not the jobs.")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    service: ServiceArgs,
    /// Service files, and directories of them
    #[arg(value_name = "FILE|DIR")]
    files: Vec<PathBuf>,
    /// Serve functions of Fishplate itself too: `matrix`, to measure calls with; `stream`, a file of any
    /// length that is made while it is sent
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(builtin::NAMES))]
    builtin: Vec<String>,
    /// Where to listen; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: String,
    /// The address that callers use, if it is not the one we listen at: it decides every address
    /// we publish
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// Header in which a trusted proxy in front of us names the caller
    #[arg(long, value_name = "HEADER")]
    user_header: Option<String>,
    /// Where a proxy in front of us is, such as 10.1.0.7 or 10.1.0.0/24: it alone may name callers (--user-header), and tells
    /// where they are (X-Forwarded-For or Forwarded), which it must set itself; may stand several times
    #[arg(long, value_name = "ADDRESS|CIDR", value_parser = network)]
    proxy: Vec<IpNet>,
    /// Let in only users and tokens that `fishplate user` and `fishplate token` have made
    #[arg(long)]
    login: bool,
    #[command(flatten)]
    jwt: JwtArgs,
    /// Let in everybody who can reach an address that others can reach too
    #[arg(long, conflicts_with = "login")]
    open: bool,
    /// Speak TLS: PEM file of the certificate, and of those between it and a known authority. It is read again when it
    /// changes, and on SIGHUP
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// PEM file of the certificate's key
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// PEM file of authorities whose certificates log clients in: the common name is the user's
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Another name of this server; requests for hosts that it is not are refused. `*`: any; may stand
    /// several times
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<String>,
    #[command(flatten)]
    hosting: HostingArgs,
    /// The program's command line with typed slots
    #[arg(last = true, value_name = "WORD")]
    words: Vec<String>,
}

/// Tokens of an identity provider.
#[derive(Debug, clap::Args)]
struct JwtArgs {
    /// Let in whoever has a JSON Web Token of this issuer (an OpenID Connect provider), as its tokens name it
    #[arg(long, value_name = "URL", requires = "jwt_audience")]
    jwt_issuer: Option<String>,
    /// What this server is called at the issuer: tokens that are for others are refused
    #[arg(long, value_name = "NAME", requires = "jwt_issuer")]
    jwt_audience: Option<String>,
    /// The issuer's keys, a JWK Set: a file, or where it publishes them
    /// [default: as told in ISSUER/.well-known/openid-configuration]
    #[arg(long, value_name = "FILE|URL", requires = "jwt_issuer")]
    jwt_keys: Option<KeySource>,
    /// The claim of a token that is the user's name here
    #[arg(long, value_name = "CLAIM", default_value = "sub")]
    jwt_user: String,
}

impl JwtArgs {
    fn settings(self) -> Option<JwtSettings> {
        Some(JwtSettings {
            issuer: self.jwt_issuer?,
            audience: self.jwt_audience?,
            keys: self.jwt_keys.unwrap_or(KeySource::Discovered),
            user_claim: self.jwt_user,
        })
    }
}

/// Serves until it is stopped.
pub(crate) fn run(arguments: ServeArgs) -> anyhow::Result<ExitCode> {
    let _log = arguments.hosting.start_log()?;
    let descriptions = arguments.service.descriptions(
        &arguments.files,
        &arguments.words,
        !arguments.builtin.is_empty(),
    )?;
    let Some(descriptions) = descriptions else { return Ok(ExitCode::from(super::USAGE)) };
    let tls = match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(certificate), Some(key)) => {
            let (certificate, key) = (certificate.clone(), key.clone());
            let client_authorities = arguments.tls_client_ca.clone();
            let files = TlsFiles { certificate, key, client_authorities };
            Some(Arc::new(ServerTls::open(files)?))
        }
        _ => None,
    };
    let runtime = super::hosting::runtime()?;
    runtime.block_on(async {
        let listening = http::bind(&arguments.listen).await.with_context(|| {
            format!(
                "cannot listen at {} (--listen ADDRESS:PORT; port 0 picks one)",
                arguments.listen
            )
        })?;
        let public_url = match arguments.public_url {
            Some(url) if is_base(&url) => url,
            Some(url) => {
                return Err(UsageError(format!(
                    "--public-url {url:?} must begin with http:// or https://, and have no query \
                     (?) and no fragment (#)"
                ))
                .into());
            }
            None => own_url(if tls.is_some() { "https" } else { "http" }, listening.address()),
        };
        let mut limits = arguments.hosting.limits(public_url)?;
        limits.faces.user_header = arguments.user_header;
        limits.faces.proxies = arguments.proxy;
        limits.faces.login = arguments.login;
        limits.faces.jwt = arguments.jwt.settings();
        limits.faces.allow_hosts = arguments.allow_host;
        limits.faces.client_certificates = arguments.tls_client_ca.is_some();
        guarded(listening.address().ip(), &limits.faces, arguments.open, tls.is_some())?;
        let data = assembly::data(&limits)?;
        let backends = arguments.hosting.backends(&limits, StoreCheck::All)?;
        let engine = assembly::engine(&limits, backends, &data)?;
        let functions = arguments.builtin.iter().filter_map(|name| builtin::named(name)).collect();
        let housekeeping = Arc::clone(&data).housekeeping(engine.clone());
        let host = assembly::host(
            limits,
            PublicAddress::Below,
            engine.clone(),
            data,
            descriptions,
            functions,
        )?;
        let mut stdout = std::io::stdout().lock();
        for entry in host.services().filter(|entry| !entry.is_built_in()) {
            writeln!(stdout, "{} {}", entry.service().name, entry.url)?;
        }
        stdout.flush()?;
        drop(stdout);
        // In tasks of their own: what runs in this one is woken on the main thread each time.
        tokio::spawn(async move { engine.run(RunMode::Dropped).await });
        tokio::spawn(housekeeping);
        let listening = match tls {
            Some(tls) => {
                tokio::spawn(reloading(Arc::clone(&tls)));
                listening.with_tls(tls)
            }
            None => listening,
        };
        let serving = tokio::spawn(listening.serve(Arc::clone(&host)));
        tokio::select! {
            _ = serving => {}
            () = stopped() => tracing::info!("stopped; running jobs go on"),
        }
        host.write_usage().await;
        anyhow::Ok(())
    })?;
    // Whatever still waits beside the runtime must not keep a stopped server alive.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    Ok(ExitCode::SUCCESS)
}

/// Whether it is known who calls where strangers can.
fn guarded(
    address: IpAddr,
    settings: &Settings,
    open: bool,
    encrypted: bool,
) -> anyhow::Result<()> {
    let logs_in = settings.login || settings.jwt.is_some();
    let is_known = logs_in || settings.client_certificates || settings.user_header.is_some();
    let from_anywhere = settings.user_header.is_some() && settings.proxies.is_empty();
    if from_anywhere && (logs_in || settings.client_certificates) {
        let what = "with --login, --jwt-issuer or --tls-client-ca beside --user-header, callers could name themselves in the header: tell where \
                    the proxy is with --proxy ADDRESS";
        return Err(UsageError(what.to_owned()).into());
    }
    if address.is_loopback() {
        return Ok(());
    }
    if !is_known && !open {
        return Err(UsageError(format!(
            "others can reach {address}, and nobody would be asked who they are: let users log in (--login, \
             `fishplate user add NAME`), have a proxy name them (--user-header, --proxy), or let everybody in who can \
             reach it (--open)"
        ))
        .into());
    }
    if from_anywhere && !open {
        return Err(UsageError(format!(
            "others can reach {address}, and could name themselves in the header of --user-header: tell where the \
             proxy is (--proxy ADDRESS), listen where only it can reach (--listen 127.0.0.1:PORT), or let everybody \
             in under any name (--open)"
        ))
        .into());
    }
    if logs_in && !encrypted {
        tracing::warn!(
            "passwords and tokens cross the network as they are: use TLS (--tls-cert), or a proxy that does"
        );
    }
    Ok(())
}

/// A network, or one address.
fn network(text: &str) -> Result<IpNet, String> {
    let address = text.parse::<IpAddr>().map(IpNet::from);
    address.or_else(|_| text.parse()).map_err(|_| {
        "write an address such as 10.1.0.7, or a network such as 10.1.0.0/24".to_owned()
    })
}

/// A URL below which services can be.
fn is_base(url: &str) -> bool {
    let absolute = url.starts_with("http://") || url.starts_with("https://");
    absolute && !url.contains(['?', '#', ' '])
}

/// The address of a server that was told no other.
fn own_url(scheme: &str, address: SocketAddr) -> String {
    if !address.ip().is_unspecified() {
        return format!("{scheme}://{address}");
    }
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    format!("{scheme}://{}:{}", name.as_deref().unwrap_or("localhost"), address.port())
}

/// Reads certificates again at each SIGHUP.
async fn reloading(tls: Arc<ServerTls>) {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut hangups) = signal(SignalKind::hangup()) else { return };
    while hangups.recv().await.is_some() {
        match tls.reload() {
            Ok(()) => tracing::info!("certificates were read again"),
            Err(error) => tracing::error!("the certificate from before stays in use: {error}"),
        }
    }
}

async fn stopped() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminated) = signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
    }
}
