//! The workflow manager as a service (paper 001, section 1; docs/decisions/0028): `serve --builtin domain-manager`. Its program is
//! the hidden command `fishplate domain-manager`, which does what `fishplate domain run` does, with what the caller gave and nothing else of this
//! machine: no files but the inputs, no logins but the caller's, no addresses but those that the server may ask.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use clap::builder::PossibleValuesParser;
use fishplate_client::credentials::{Credentials, Logins};
use fishplate_client::{Retry, Settings};
use fishplate_data::Network;
use fishplate_data::policy::PolicySettings;
use fishplate_formats::units;
use fishplate_programs::descriptor::{Description, SourceText, check_text};
use fishplate_programs::template::{CommandItem, Word, WordPart};
use fishplate_ranks::launch::TransportKind;
use fishplate_ranks::{Credential, DomainId};

use super::running::{self, DomainRun};
use super::{HowArgs, file};
use crate::output::Output;

/// Its name.
pub(crate) const NAME: &str = "domain-manager";

/// Bytes of what ranks write that the job's log has: with labels far less than what a log may have (64 MiB), whose end would be the
/// manager's, without a grace in which it could end the ranks.
const SHOWN: u64 = 4 << 20;

/// What it takes and gives.
const SERVICE: &str = include_str!("service.toml");

/// What callers of the service give, as their job has it, and what its server allows.
#[derive(Debug, Args)]
pub(crate) struct ManagerArgs {
    /// The file of the domain
    #[arg(long)]
    file: PathBuf,
    /// Files that it names
    #[arg(long)]
    inputs: Option<PathBuf>,
    /// What logs in at the servers, as `fishplate login` notes it
    #[arg(long)]
    logins: Option<PathBuf>,
    /// ID of the domain
    #[arg(long)]
    domain: Option<DomainId>,
    /// File with its credential
    #[arg(long)]
    credential: Option<PathBuf>,
    /// What carries messages
    #[arg(long, default_value = TransportKind::default().name(),
          value_parser = PossibleValuesParser::new(TransportKind::ALL.map(TransportKind::name)))]
    transport: String,
    /// How long places are asked for where all are taken
    #[arg(long, value_parser = units::duration)]
    wait: Option<Duration>,
    /// Where the results of each rank go
    #[arg(long)]
    results: PathBuf,
    #[command(flatten)]
    reach: ReachArgs,
}

/// Which servers may be asked, and whose certificates are trusted.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ReachArgs {
    /// Those of private networks and of this machine too
    #[arg(long)]
    allow_private: bool,
    /// Those of this network too
    #[arg(long)]
    allow_network: Vec<Network>,
    /// Authorities instead of the system's
    #[arg(long)]
    cacert: Option<PathBuf>,
}

impl ReachArgs {
    /// As a server is told.
    pub(crate) fn new(allow_private: bool, networks: &[Network], ca: Option<&Path>) -> Self {
        Self { allow_private, allow_network: networks.to_vec(), cacert: ca.map(Path::to_owned) }
    }

    fn as_words(&self) -> Vec<String> {
        let blocks = self.allow_network.iter().flat_map(|network| &network.blocks);
        let networks = blocks.flat_map(|block| ["--allow-network".to_owned(), block.to_string()]);
        let private = self.allow_private.then(|| "--allow-private".to_owned());
        let ca = self.cacert.iter();
        let ca = ca.flat_map(|file| ["--cacert".to_owned(), file.display().to_string()]);
        private.into_iter().chain(networks).chain(ca).collect()
    }

    fn settings(&self, logins: Option<Logins>) -> Settings {
        let (allow_private, networks) = (self.allow_private, self.allow_network.clone());
        Settings {
            credentials: Credentials { logins, ..Credentials::default() },
            ca_file: self.cacert.clone(),
            policy: Some(PolicySettings { allow_private, networks }),
            retry: Retry::default(),
            ..Settings::default()
        }
    }
}

/// The service, whose jobs reach what its server may.
///
/// # Errors
/// If it is not known where this binary is.
pub(crate) fn description(reach: &ReachArgs) -> Result<Description> {
    let binary = std::env::current_exe().context("it is not known where this binary is")?;
    let binary = binary.to_str().context("the path of this binary is not UTF-8")?;
    let source = SourceText { name: format!("{NAME}.toml"), text: SERVICE.to_owned() };
    let checked = check_text(&source, Path::new("/"));
    let mut description = checked.description.context("its description has a mistake")?;
    let word = |text: String| CommandItem::Word(Word { parts: vec![WordPart::Text(text)] });
    for invocation in &mut description.invocations {
        let items = &mut invocation.template.items;
        items[0] = word(binary.to_owned());
        items.splice(2..2, reach.as_words().into_iter().map(word));
    }
    Ok(description)
}

/// Runs a domain as the workspace of a job describes it.
pub(crate) fn run(args: &ManagerArgs) -> Result<ExitCode> {
    let mut parts = file::read(&args.file)?;
    fs::create_dir_all(&args.results)?;
    let results = args.results.canonicalize()?;
    let logins = args.logins.as_ref().map(|path| path.canonicalize().map(Logins::given));
    let settings = args.reach.settings(logins.transpose()?);
    let credential = match &args.credential {
        None => Credential::random()?,
        Some(path) => {
            let text = fs::read_to_string(path)?;
            text.trim().parse().map_err(|needed| anyhow::anyhow!("credential: {needed}"))?
        }
    };
    // What has a name of no file of the inputs is the name of a service.
    std::env::set_current_dir(args.inputs.as_ref().unwrap_or(&args.results))?;
    file::confine(&mut parts, Path::new("."))?;
    let run = DomainRun {
        id: args.domain.map_or_else(DomainId::random, Ok)?,
        credential,
        parts,
        settings,
        transport: TransportKind::from_name(&args.transport).unwrap_or_default(),
        label: true,
        keep_going: false,
        time: None,
        shown: Some(SHOWN),
        how: HowArgs { wait: args.wait, results: Some(results), ..HowArgs::default() },
    };
    let outcome = running::run(run, Output { json: true })?;
    // The manager did its work: a job that failed would give neither the summary, which tells who failed, nor the results of the others.
    Ok(if outcome.failed.is_some() { 0 } else { outcome.code }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_jobs_reach_what_the_server_may_and_nothing_else() {
        let networks = ["lab=10.1.0.0/16,fd00:1::/32".parse().unwrap()];
        let reach = ReachArgs::new(true, &networks, Some(Path::new("/ca.pem")));
        let words = "--allow-private --allow-network 10.1.0.0/16 --allow-network fd00:1::/32 --cacert /ca.pem";
        assert_eq!(reach.as_words().join(" "), words);
        let description = description(&reach).unwrap();
        assert_eq!(description.service.name, NAME);
        let line: Vec<String> =
            description.invocations[0].template.to_words().into_iter().skip(1).collect();
        assert!(line.join(" ").starts_with(&format!("{NAME} {words} --file ")), "{line:?}");
        let settings = reach.settings(None);
        assert!(settings.policy.is_some_and(|of| of.allow_private && of.networks.len() == 1));
        assert!(settings.credentials.token.is_none() && settings.credentials.netrc.is_none());
    }
}
