//! `fishplate serve`: programs as services.

mod running;

use std::ffi::OsString;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use clap::{Args, FromArgMatches as _};
use fishplate_contract::interface::SITES;
use fishplate_jobs::engine::RunMode;
use fishplate_jobs::function::Functions;
use fishplate_jobs::function::builtin;
use fishplate_programs::descriptor::Description;
use fishplate_server::assembly::StoreCheck;
use fishplate_server::authentication::jwt::JwtSettings;
use fishplate_server::authentication::jwt_keys::KeySource;
use fishplate_server::current::CurrentHost;
use fishplate_server::faces::ogc::tell_subscribers;
use fishplate_server::faces::sites;
use fishplate_server::host::PublicAddress;
use fishplate_server::http::tls::{ServerTls, TlsFiles};
use fishplate_server::settings::{Limits, Relay, Settings};
use fishplate_server::{assembly, http};
use ipnet::IpNet;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrIn6;

use self::running::{RunningServer, Signals};
use super::domain::service::{self as domain_manager, ReachArgs};
use super::hosting::{HostingArgs, LOG_REST, ServiceArgs};
use crate::configuration::Resolution;
use crate::output::diagnostics::Mistakes;
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

  All that flags say, and the services, from a configuration file:
    fishplate serve --config /etc/fishplate/fishplate.toml

  Functions of Fishplate itself, to measure calls with:
    fishplate serve --builtin matrix

When it is ready it prints a line NAME URL for each service on standard output.
Running jobs outlive the server: start it again with the same --data to find them.
Ctrl-C and SIGTERM stop the server, not the jobs: calls that are being answered may go on for a time (stop_time); a second
signal ends it at once. SIGHUP has it read configuration, services and certificates again, and loses no call.")]
pub(crate) struct ServeArgs {
    /// File that says what flags would, which come before it [default: if no service is named, ./fishplate.toml or
    /// /etc/fishplate/fishplate.toml]
    #[arg(long, value_name = "FILE", env = "FISHPLATE_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    service: ServiceArgs,
    /// Service files, and directories of them
    #[arg(value_name = "FILE|DIR")]
    files: Vec<PathBuf>,
    /// Serve what is Fishplate's own too: `matrix`, functions to measure calls with; `stream`, a file of any
    /// length that is made while it is sent; `domain-manager`, which runs communication domains (`fishplate domain run`)
    #[arg(long, value_name = "NAME", value_parser = builtin_names())]
    builtin: Vec<String>,
    /// Where to listen; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080", value_parser = address)]
    listen: String,
    /// The address that callers use, if it is not the one we listen at: it decides every address
    /// we publish
    #[arg(long, value_name = "URL", value_parser = base)]
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
    /// Take passwords in messages (UsernameToken, PasswordText) over plain HTTP from other machines too
    #[arg(long)]
    plain_passwords: bool,
    /// Let whoever asks read the descriptions of services (pages, WSDL), though calls need a login
    #[arg(long)]
    open_descriptions: bool,
    #[command(flatten)]
    jwt: JwtArgs,
    /// Let in everybody who can reach an address that others can reach too
    #[arg(long)]
    open: bool,
    /// Speak TLS: PEM file of the certificate, and of those between it and a known authority. It is read again when it
    /// changes, and on SIGHUP
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// PEM file of the certificate's key
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// PEM file of authorities whose certificates log clients in: the common name is the user's
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<PathBuf>,
    /// Another name of this server; requests for hosts that it is not are refused. `*`: any; may stand
    /// several times
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<String>,
    /// Address of this machine at which ranks on other servers reach those of this one that have ports of their own (`--direct`);
    /// may stand several times: they are tried in this order [default: those at which the server listens]
    #[arg(long, value_name = "ADDRESS")]
    rank_address: Vec<IpAddr>,
    /// PEM file of authorities that this server and its ranks trust, beside the system's, where they reach other servers;
    /// the service `domain-manager` trusts these alone
    #[arg(long, value_name = "FILE")]
    rank_ca: Option<PathBuf>,
    /// Be reached through this server, if nobody can dial this one: `https://HOST/.../sites/NAME`, which becomes the
    /// public URL unless that is given; may stand several times: others try them in this order
    #[arg(long, value_name = "URL", value_parser = relay)]
    relay: Vec<String>,
    /// File of the token that registers this server at its relay; of several relays, each has one, in the same order
    #[arg(long, value_name = "FILE")]
    relay_token: Vec<PathBuf>,
    #[command(flatten)]
    hosting: HostingArgs,
    /// The program's command line with typed slots
    #[arg(last = true, value_name = "WORD")]
    words: Vec<String>,
}

/// What is served of Fishplate's own.
fn builtin_names() -> PossibleValuesParser {
    PossibleValuesParser::new(builtin::NAMES.into_iter().chain([domain_manager::NAME]))
}

/// Tokens of an identity provider.
#[derive(Debug, clap::Args)]
struct JwtArgs {
    /// Let in whoever has a JSON Web Token of this issuer (an OpenID Connect provider), as its tokens name it
    #[arg(long, value_name = "URL")]
    jwt_issuer: Option<String>,
    /// What this server is called at the issuer: tokens that are for others are refused
    #[arg(long, value_name = "NAME")]
    jwt_audience: Option<String>,
    /// The issuer's keys, a JWK Set: a file, or where it publishes them
    /// [default: as told in ISSUER/.well-known/openid-configuration]
    #[arg(long, value_name = "FILE|URL")]
    jwt_keys: Option<KeySource>,
    /// The claim of a token that is the user's name here
    #[arg(long, value_name = "CLAIM", default_value = "sub")]
    jwt_user: String,
}

impl JwtArgs {
    fn settings(&self) -> Result<Option<JwtSettings>, UsageError> {
        match (self.jwt_issuer.clone(), self.jwt_audience.clone()) {
            (Some(issuer), Some(audience)) => Ok(Some(JwtSettings {
                issuer,
                audience,
                keys: self.jwt_keys.clone().unwrap_or(KeySource::Discovered),
                user_claim: self.jwt_user.clone(),
            })),
            (Some(_), None) => Err(UsageError("--jwt-issuer needs --jwt-audience".to_owned())),
            (None, None) if self.jwt_keys.is_none() => Ok(None),
            _ => Err(UsageError("--jwt-audience and --jwt-keys need --jwt-issuer".to_owned())),
        }
    }
}

impl ServeArgs {
    /// The services that are described, and warnings about them.
    fn descriptions(
        &self,
        resolution: &Resolution,
    ) -> anyhow::Result<(Vec<Description>, Mistakes)> {
        let others = resolution.names_services() || !self.builtin.is_empty();
        let (mut all, mistakes) = self.service.descriptions(&self.files, &self.words, others)?;
        if self.builtin.iter().any(|name| name == domain_manager::NAME) {
            let (allow_private, networks) = self.hosting.networks()?;
            let reach = ReachArgs::new(allow_private, &networks, self.rank_ca()?.as_deref());
            all.push(domain_manager::description(&reach)?);
        }
        Ok((all, mistakes))
    }

    /// Functions of our own.
    fn functions(&self) -> Vec<Functions> {
        self.builtin.iter().filter_map(|name| builtin::named(name)).collect()
    }

    /// The settings that these make.
    fn limits(&self, public_url: String) -> anyhow::Result<Limits> {
        let mut limits = self.hosting.limits(public_url)?;
        limits.faces.user_header.clone_from(&self.user_header);
        limits.faces.proxies.clone_from(&self.proxy);
        limits.faces.login = self.login;
        limits.faces.plain_passwords = self.plain_passwords;
        limits.faces.open_descriptions = self.open_descriptions;
        limits.faces.jwt = self.jwt.settings()?;
        limits.faces.allow_hosts.clone_from(&self.allow_host);
        limits.faces.client_certificates = self.tls_client_ca.is_some();
        limits.faces.rank_ca = self.rank_ca()?;
        limits.faces.relays = self.relays()?;
        limits.faces.mpi_library = super::run::mpi_library()?;
        Ok(limits)
    }

    fn rank_ca(&self) -> anyhow::Result<Option<PathBuf>> {
        self.rank_ca.as_deref().map(absolute).transpose()
    }

    /// Servers through which this one is reached.
    fn relays(&self) -> anyhow::Result<Vec<Relay>> {
        if !self.relay_token.is_empty() && self.relay_token.len() != self.relay.len() {
            let (tokens, relays) = (self.relay_token.len(), self.relay.len());
            let what = format!(
                "--relay-token stands {tokens} times and --relay {relays} times: each relay has one, or none has"
            );
            return Err(UsageError(what).into());
        }
        let tokens = self.relay_token.iter().map(|file| absolute(file).map(Some));
        let tokens = tokens.chain(std::iter::repeat_with(|| Ok(None)));
        let relay = |(url, token): (&String, anyhow::Result<_>)| {
            Ok(Relay { url: url.trim_end_matches('/').to_owned(), token: token? })
        };
        self.relay.iter().zip(tokens).map(relay).collect()
    }

    /// The address that callers use.
    fn public_url(&self, address: SocketAddr) -> String {
        let told = self.public_url.as_ref().or(self.relay.first());
        let scheme = if self.tls_cert.is_some() { "https" } else { "http" };
        told.cloned().unwrap_or_else(|| own_url(scheme, address))
    }

    /// By what others than this machine's processes reach the server; whether what they say is encrypted.
    fn exposure(&self, address: IpAddr, encrypted: bool) -> (Option<String>, bool) {
        if let Some(relay) = self.relay.first() {
            let all = self.relay.iter().all(|relay| relay.starts_with("https://"));
            return (Some(relay.clone()), all && (encrypted || address.is_loopback()));
        }
        (Some(address.to_string()).filter(|_| !address.is_loopback()), encrypted)
    }

    /// Where ranks are reached, if the server listens there.
    fn rank_addresses(&self, listening: IpAddr) -> anyhow::Result<Vec<IpAddr>> {
        if !self.rank_address.is_empty() {
            return Ok(self.rank_address.clone());
        }
        if !listening.is_unspecified() {
            return Ok(vec![listening]);
        }
        let interfaces = getifaddrs().context("this machine's addresses can't be listed")?;
        let all = interfaces.filter_map(|interface| {
            let address = interface.address?;
            let four = address.as_sockaddr_in().map(|of| IpAddr::from(of.ip()));
            // One of a link is good on that link only.
            let six = address.as_sockaddr_in6().map(SockaddrIn6::ip);
            four.or_else(|| Some(six.filter(|of| !of.is_unicast_link_local())?.into()))
        });
        let wanted =
            |address: &IpAddr| !address.is_loopback() && (listening.is_ipv6() || address.is_ipv4());
        Ok(all.filter(wanted).collect())
    }

    /// Needs of flags among each other are looked at here, because any of them may be in the file.
    fn tls(&self) -> Result<Option<TlsFiles>, UsageError> {
        let needs = |what: &str, needed: &str| Err(UsageError(format!("{what} needs {needed}")));
        match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                let (certificate, key) = (certificate.clone(), key.clone());
                let client_authorities = self.tls_client_ca.clone();
                Ok(Some(TlsFiles { certificate, key, client_authorities }))
            }
            (Some(_), None) => needs("--tls-cert", "--tls-key"),
            (None, Some(_)) => needs("--tls-key", "--tls-cert"),
            (None, None) if self.tls_client_ca.is_some() => needs("--tls-client-ca", "--tls-cert"),
            (None, None) => Ok(None),
        }
    }
}

/// The limits and the policy with which `serve` of these words, and of the configuration that they mean, would run.
pub(super) fn limits(words: &[OsString]) -> anyhow::Result<Limits> {
    let resolution = Resolution::of(&super::grammar(), words)?;
    ServeArgs::from_arg_matches(&resolution.matches)?.limits(String::new())
}

/// Serves as these words and the configuration say, until it is stopped.
pub(crate) fn run(words: &[OsString]) -> anyhow::Result<ExitCode> {
    let resolution = Resolution::of(&super::grammar(), words)?;
    let arguments = ServeArgs::from_arg_matches(&resolution.matches)?;
    let _log = arguments.hosting.start_log(LOG_REST)?;
    if let Some(file) = &resolution.file {
        tracing::info!("configured by {}", file.source.name);
    }
    let (descriptions, warnings) = arguments.descriptions(&resolution)?;
    warnings.show();
    let tls = arguments.tls()?.map(ServerTls::open).transpose()?.map(Arc::new);
    let runtime = super::hosting::runtime()?;
    runtime.block_on(async {
        let signals = Signals::take()?;
        let listening = http::bind(&arguments.listen).await.with_context(|| {
            format!(
                "cannot listen at {} (--listen ADDRESS:PORT; port 0 picks one)",
                arguments.listen
            )
        })?;
        let address = listening.address();
        let mut limits = arguments.limits(arguments.public_url(address))?;
        limits.faces.rank_addresses = arguments.rank_addresses(address.ip())?;
        let exposure = arguments.exposure(address.ip(), tls.is_some());
        guarded(exposure, &limits.faces, arguments.open)?;
        let data = assembly::data(&limits)?;
        let backends = arguments.hosting.backends(&limits, StoreCheck::All)?;
        let engine = assembly::engine(&limits, backends, &data)?;
        let housekeeping = Arc::clone(&data).housekeeping(engine.clone());
        let host = assembly::host(
            limits.clone(),
            PublicAddress::Below,
            engine.clone(),
            data,
            descriptions,
            arguments.functions(),
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
        let listening = match &tls {
            Some(tls) => listening.with_tls(Arc::clone(tls)),
            None => listening,
        };
        let current = CurrentHost::new(host);
        tokio::spawn(tell_subscribers(Arc::clone(&current)));
        let serving = tokio::spawn(listening.serve(Arc::clone(&current)));
        let (words, settings) = (words.to_vec(), resolution.settings());
        let file = resolution.file_name().map(str::to_owned);
        let address = address.ip();
        let running = RunningServer {
            words,
            file,
            settings,
            limits,
            address,
            tls,
            current: Arc::clone(&current),
        };
        running.lead(serving, signals).await;
        current.get().write_usage().await;
        anyhow::Ok(())
    })?;
    // Whatever still waits beside the runtime must not keep a stopped server alive.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    Ok(ExitCode::SUCCESS)
}

/// Whether it is known who calls where strangers can.
fn guarded(
    (exposed, encrypted): (Option<String>, bool),
    settings: &Settings,
    open: bool,
) -> anyhow::Result<()> {
    let logs_in = settings.login || settings.jwt.is_some();
    if logs_in && open {
        let what = "--login and --jwt-issuer let in only those who are known, and --open everybody: leave one of them out";
        return Err(UsageError(what.to_owned()).into());
    }
    let is_known = logs_in || settings.client_certificates || settings.user_header.is_some();
    let from_anywhere = settings.user_header.is_some() && settings.proxies.is_empty();
    if from_anywhere && (logs_in || settings.client_certificates) {
        let what = "with --login, --jwt-issuer or --tls-client-ca beside --user-header, callers could name themselves in the header: tell where \
                    the proxy is with --proxy ADDRESS";
        return Err(UsageError(what.to_owned()).into());
    }
    let Some(address) = exposed else { return Ok(()) };
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

/// A file, wherever the process works later.
fn absolute(file: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(file).with_context(|| format!("cannot use {}", file.display()))
}

/// A network, or one address.
fn network(text: &str) -> Result<IpNet, String> {
    let address = text.parse::<IpAddr>().map(IpNet::from);
    address.or_else(|_| text.parse()).map_err(|_| {
        "write an address such as 10.1.0.7, or a network such as 10.1.0.0/24".to_owned()
    })
}

/// An address to listen at; whether it is ours, the system knows.
fn address(text: &str) -> Result<String, String> {
    let port = text.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    let what = "write an address and a port, such as 127.0.0.1:8080; port 0 picks one";
    port.map(|_| text.to_owned()).ok_or_else(|| what.to_owned())
}

/// A URL below which services can be.
fn base(url: &str) -> Result<String, String> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let host = rest.and_then(|rest| rest.split('/').next());
    if url.contains(['?', '#', ' '])
        || host.is_none_or(|host| host.is_empty() || host.contains('@'))
    {
        let what = "it must begin with http:// or https:// and a host, and have no user (@), no query (?) and no \
                    fragment (#)";
        return Err(what.to_owned());
    }
    Ok(url.to_owned())
}

/// Where this server is reached through another one.
fn relay(url: &str) -> Result<String, String> {
    let url = base(url)?;
    let mut segments = url.trim_end_matches('/').rsplit('/');
    let is_name = segments.next().is_some_and(sites::is_name);
    if is_name && segments.next() == Some(SITES) {
        return Ok(url);
    }
    let what = "it must end with /sites/NAME: NAME, of letters, digits, `-`, `_` and `.`, is what this server is called \
                there";
    Err(what.to_owned())
}

/// The address of a server that was told no other.
fn own_url(scheme: &str, address: SocketAddr) -> String {
    if !address.ip().is_unspecified() {
        return format!("{scheme}://{address}");
    }
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    format!("{scheme}://{}:{}", name.as_deref().unwrap_or("localhost"), address.port())
}
