//! `fishplate get REF`: brings what a reference refers to here.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use fishplate_client::Meter;
use fishplate_client::data::{DownloadTarget, Sources};
use fishplate_contract::{DataRef, Digest};
use fishplate_data::settings::TransportSettings;
use serde_json::json;

use super::client::{NetworkArgs, going_on, run_interruptible};
use crate::exit::Exit;
use crate::output::failure::UsageError;
use crate::output::{Output, progress};

/// Get what a reference refers to
///
/// Prints the name of the file. It takes its name when it is whole and its digest is right; until
/// then its bytes are in NAME.part. A broken connection is mended, and the same command goes on
/// with NAME.part.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate get http://somewhere.com/data/TOKEN/pipe.msh
  fishplate get $MESH -o meshes/
  fishplate get $MESH -o - | head
  fishplate get s3://lab/pipe.msh --transfers stores.toml
  fishplate get ftp://archive.example.com/pipe.msh --sha256 $(cut -c-64 pipe.msh.sha256)")]
pub(crate) struct Args {
    /// URL
    #[arg(value_name = "REF")]
    pub(crate) reference: String,
    /// File or directory; - for standard output [default: the last part of the URL]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// SHA-256 that the data must have, in hexadecimal digits
    #[arg(long, value_name = "DIGITS", value_parser = sha256)]
    sha256: Option<Digest>,
    /// Accounts of FTP servers and S3 stores, as `fishplate serve` takes them
    #[arg(long, value_name = "FILE")]
    transfers: Option<PathBuf>,
    #[command(flatten)]
    network: NetworkArgs,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let to = target(args.output.as_deref(), &args.reference)?;
    let hints = match &to {
        DownloadTarget::File(_) => vec!["the same command goes on where it stopped".to_owned()],
        DownloadTarget::Stdout => Vec::new(),
    };
    run_interruptible(&hints, async {
        let accounts = match &args.transfers {
            Some(file) => TransportSettings::read(file)?,
            None => TransportSettings::default(),
        };
        let sources = Sources::with(&args.network.settings(), &accounts)?;
        let from = DataRef { digest: args.sha256, ..DataRef::new(&*args.reference) };
        let meter = Arc::new(Meter::default());
        let getting = sources.get(&from, &to, &meter);
        let got = progress::moving(output, &meter, getting).await;
        let got = got.map_err(|error| going_on(error, &hints, &meter))?;
        match &to {
            // Standard output is the data's.
            DownloadTarget::Stdout => {}
            DownloadTarget::File(path) if output.json => output.value(&json!({
                "file": path.to_string_lossy(),
                "size": got.len,
                "digest": got.digest.to_string(),
                "verified": got.verified,
                "resumed": got.resumed,
            }))?,
            DownloadTarget::File(path) => output.line(&path.to_string_lossy())?,
        }
        Ok(Exit::Success)
    })
}

fn sha256(digits: &str) -> Result<Digest, String> {
    let digits = digits.trim().to_ascii_lowercase();
    Digest::from_sha256_hex(&digits).ok_or_else(|| "write 64 hexadecimal digits".to_owned())
}

/// As told; in a directory, or if nothing was told, the URL's own name.
fn target(told: Option<&Path>, url: &str) -> Result<DownloadTarget, UsageError> {
    let named = || {
        name_of(url).ok_or_else(|| {
            UsageError(format!("{url:?} does not end with a file's name: tell one with -o NAME"))
        })
    };
    Ok(match told {
        Some(path) if path == Path::new("-") => DownloadTarget::Stdout,
        Some(path) if path.is_dir() => DownloadTarget::File(path.join(named()?)),
        Some(path) if path.as_os_str().as_encoded_bytes().ends_with(b"/") => {
            return Err(UsageError(format!("there is no directory {}", path.display())));
        }
        Some(path) => DownloadTarget::File(path.to_owned()),
        None => DownloadTarget::File(PathBuf::from(named()?)),
    })
}

/// The last part of a URL's path, if it can name a file here.
fn name_of(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    let path = rest.split(['?', '#']).next()?;
    let (_, last) = path.rsplit_once('/')?;
    let name = percent_decoded(last)?;
    let safe = !matches!(&*name, "" | "." | "..") && !name.contains(['/', '\0']);
    (safe && !name.chars().any(char::is_control)).then_some(name)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        bytes.push(match (first, after) {
            (b'%', [high, low, after @ ..]) => {
                rest = after;
                let digits = [*high, *low];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            (other, _) => *other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_file_that_stays_where_it_is_put() {
        for (url, expected) in [
            ("http://h/data/t/pipe.msh", Some("pipe.msh")),
            ("http://h/a%20b.msh?x=1#y", Some("a b.msh")),
            ("s3://bucket/key/part", Some("part")),
            ("http://h/", None),
            ("http://h", None),
            ("http://h/data/..", None),
            ("http://h/data/%2e%2e", None),
            ("http://h/data/%2fetc%2fpasswd", None),
            ("http://h/data/a%0ab", None),
            ("http://h/data/%ff", None),
            ("nothing", None),
        ] {
            assert_eq!(name_of(url).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn a_digest_is_as_sha256sum_prints_it() {
        assert_eq!(sha256(&"AB".repeat(32)), Ok(Digest::Sha256([0xab; 32])));
        assert_eq!(sha256("ab"), Err("write 64 hexadecimal digits".to_owned()));
    }
}
