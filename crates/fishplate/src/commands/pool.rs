//! `fishplate pool`: what the pool of this machine's servers holds.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use clap::Subcommand;
use fishplate_contract::{Digest, Principal, SystemClock};
use fishplate_data::pool::{Object, Partial, Pool, PoolSettings, Verification};
use fishplate_formats::units::rounded;
use serde_json::{Value, json};

use super::hosting::data_directory;
use crate::exit::Exit;
use crate::output::failure::UsageError;
use crate::output::text::{harmless, moment};
use crate::output::{Output, progress};

/// Show, pin, remove and verify what a server's pool holds
///
/// For the operator, on the server's machine, while it runs or not. The pool keeps each file once,
/// by the SHA-256 of its bytes; wherever DIGEST stands, its first digits do (six at least where
/// something is changed). What came only in part (a broken upload or fetch) has a name that begins with
/// k-; `remove` takes that, whole.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate pool list --data /var/lib/fishplate
  fishplate pool pin 2d711642b726
  fishplate pool verify
  fishplate pool revoke http://somewhere.com/data/TOKEN/pipe.msh")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: PoolCommand,
}

#[derive(Debug, Subcommand)]
enum PoolCommand {
    #[command(visible_alias = "show")]
    List(ListArgs),
    Pin(SomeArgs),
    Unpin(SomeArgs),
    Remove(RemoveArgs),
    Verify(VerifyArgs),
    Revoke(RevokeArgs),
}

/// Which pool.
#[derive(Debug, clap::Args)]
struct PoolArgs {
    /// Directory that holds the server's state [default: ~/.local/state/fishplate]
    #[arg(long, value_name = "DIR", env = "FISHPLATE_DATA")]
    data: Option<PathBuf>,
    /// Directory of the pool [default: DATA/pool]
    #[arg(long, value_name = "DIR")]
    pool: Option<PathBuf>,
}

/// List what is there, the last used first: digest, size, owners, grants, pins
#[derive(Debug, clap::Args)]
struct ListArgs {
    #[command(flatten)]
    which: PoolArgs,
}

/// Remove objects, and what came only in part; what is pinned or granted by force only
#[derive(Debug, clap::Args)]
struct RemoveArgs {
    #[command(flatten)]
    objects: SomeArgs,
    /// Remove also what is pinned or granted; its references are good for nothing then
    #[arg(long)]
    force: bool,
}

/// Objects by their digests
#[derive(Debug, clap::Args)]
struct SomeArgs {
    /// SHA-256 in hexadecimal digits; the first six do
    #[arg(value_name = "DIGEST", required = true)]
    digests: Vec<String>,
    #[command(flatten)]
    which: PoolArgs,
}

/// Hash again what is there and tell what is damaged
#[derive(Debug, clap::Args)]
struct VerifyArgs {
    /// SHA-256 in hexadecimal digits; the first ones do [default: all]
    #[arg(value_name = "DIGEST")]
    digests: Vec<String>,
    #[command(flatten)]
    which: PoolArgs,
}

/// Take back what a reference grants; the data stays until nobody holds it
#[derive(Debug, clap::Args)]
struct RevokeArgs {
    /// URL, or a grant's ID as `pool list --json` tells it
    #[arg(value_name = "REF", required = true)]
    references: Vec<String>,
    #[command(flatten)]
    which: PoolArgs,
}

impl PoolArgs {
    /// The pool, if there is one: looking at it makes none.
    fn open(&self) -> Result<Pool> {
        let directory = match &self.pool {
            Some(pool) => pool.clone(),
            None => data_directory(self.data.as_deref())?.join("pool"),
        };
        if !directory.join("pool.sqlite").is_file() {
            let told = "no server has kept data there; --data or --pool tells another place";
            return Err(
                UsageError(format!("there is no pool in {}: {told}", directory.display())).into()
            );
        }
        let opened = Pool::open(PoolSettings::new(&directory), Arc::new(SystemClock));
        opened.with_context(|| cannot_open(&directory))
    }
}

fn cannot_open(directory: &Path) -> String {
    format!("cannot open the pool in {}", directory.display())
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    match &args.verb {
        PoolCommand::List(ListArgs { which }) => list(&which.open()?, output),
        PoolCommand::Pin(SomeArgs { which, digests }) => {
            let pool = which.open()?;
            each(&pool, digests, output, "pinned", |pool, of| Ok(pool.pin(of, true)?))
        }
        PoolCommand::Unpin(SomeArgs { which, digests }) => {
            let pool = which.open()?;
            each(&pool, digests, output, "unpinned", |pool, of| Ok(pool.pin(of, false)?))
        }
        PoolCommand::Remove(args) => remove(args, output),
        PoolCommand::Verify(args) => verify(args, output),
        PoolCommand::Revoke(args) => revoke(args, output),
    }
}

fn list(pool: &Pool, output: Output) -> Result<Exit> {
    let (objects, partials, duplicates) = (pool.objects()?, pool.partials()?, pool.duplicates()?);
    // Of what is listed: the catalogue may have gone on meanwhile.
    let total = objects.iter().map(|of| of.len).sum::<u64>()
        + partials.iter().map(|of| of.len).sum::<u64>()
        + duplicates.bytes;
    if output.json {
        let told: Vec<Value> = objects.iter().map(object).collect();
        let in_part: Vec<Value> = partials.iter().map(partial).collect();
        output.value(&json!({
            "objects": told,
            "partials": in_part,
            "duplicates": { "count": duplicates.count, "size": duplicates.bytes },
            "size": total,
        }))?;
        return Ok(Exit::Success);
    }
    for of in &objects {
        let mut facts = holds(of);
        let owners = of.owners.iter().map(Principal::as_str);
        facts.extend(owners.filter(|name| !name.is_empty()).map(|name| format!("of {name}")));
        let (size, used) = (rounded(of.len), moment(of.used));
        let line = format!("{:64}  {size:>10}  {used}  {}", hex(of), facts.join(", "));
        output.line(harmless(&line).trim_end())?;
    }
    if duplicates.count > 0 {
        let (what, size) = ("(duplicates)", rounded(duplicates.bytes));
        let told = format!("{what:64}  {size:>10}  {} being merged", duplicates.count);
        output.line(&told)?;
    }
    for of in partials {
        let (size, written) = (rounded(of.len), moment(of.written));
        let owner = of.owner.filter(|owner| !owner.as_str().is_empty());
        let owner = owner.map_or_else(String::new, |owner| format!(", of {}", owner.as_str()));
        output.line(&harmless(&format!("{}  {size:>10}  {written}  in part{owner}", of.name)))?;
    }
    output.note(&format!("{} in all", rounded(total)));
    Ok(Exit::Success)
}

/// What keeps an object.
fn holds(of: &Object) -> Vec<String> {
    let mut facts = Vec::new();
    if of.pinned {
        facts.push("pinned".to_owned());
    }
    match of.grants.len() {
        0 => {}
        1 => facts.push("1 grant".to_owned()),
        many => facts.push(format!("{many} grants")),
    }
    facts
}

fn partial(of: &Partial) -> Value {
    json!({
        "partial": of.name,
        "size": of.len,
        "owner": of.owner.as_ref().map(Principal::as_str),
        "written": moment(of.written),
    })
}

fn object(of: &Object) -> Value {
    let grants = of.grants.iter().map(|grant| {
        json!({
            "grant": grant.id.to_string(),
            "owner": grant.owner.as_str(),
            "name": grant.name,
            "created": moment(grant.created),
            "expires": moment(grant.expires),
        })
    });
    json!({
        "digest": of.digest.map(|digest| digest.hex()),
        "size": of.len,
        "owners": of.owners.iter().map(Principal::as_str).collect::<Vec<_>>(),
        "grants": grants.collect::<Vec<_>>(),
        "pinned": of.pinned,
        "created": moment(of.created),
        "used": moment(of.used),
    })
}

/// Its digest; of what is still being hashed a note.
fn hex(of: &Object) -> String {
    of.digest.map_or_else(|| "(being hashed)".to_owned(), |digest| digest.hex())
}

/// Removes objects, and what came only in part; nothing at all if something of it is held.
fn remove(args: &RemoveArgs, output: Output) -> Result<Exit> {
    let RemoveArgs { objects: SomeArgs { digests, which }, force } = args;
    let (partials, digests): (Vec<_>, Vec<_>) =
        digests.iter().cloned().partition(|told| told.starts_with(PARTIAL));
    let pool = which.open()?;
    if !force {
        unheld(&pool.objects()?, &digests)?;
    }
    for name in partials {
        pool.remove_partial(&name).with_context(|| name.clone())?;
        if output.json {
            output.value(&json!({ "partial": name, "removed": true }))?;
        } else {
            output.line(&harmless(&format!("{name} removed")))?;
        }
    }
    each(&pool, &digests, output, "removed", |pool, of| {
        let removed = if *force { pool.remove(of) } else { pool.remove_unheld(of) };
        Ok(removed.map(drop)?)
    })
}

/// None of these objects is pinned or granted.
fn unheld(objects: &[Object], digests: &[String]) -> Result<(), UsageError> {
    let all: Vec<Digest> = objects.iter().filter_map(|object| object.digest).collect();
    for told in digests {
        let digest = meant(&all, told, CHANGED)?;
        let Some(of) = objects.iter().find(|of| of.digest == Some(digest)) else { continue };
        let mut holds = holds(of);
        if let (Some(last), Some(until)) =
            (holds.last_mut(), of.grants.iter().map(|grant| grant.expires).max())
        {
            last.push_str(&format!(" until {}", moment(until)));
        }
        if !holds.is_empty() {
            let (hex, holds) = (digest.hex(), holds.join(", "));
            return Err(UsageError(format!(
                "{hex} is kept ({holds}), and nothing was removed: --force removes it all the same"
            )));
        }
    }
    Ok(())
}

/// How names of what came only in part begin.
const PARTIAL: &str = "k-";

/// How many digits must be told of what is changed, and of what is only looked at.
const CHANGED: usize = 6;
const READ: usize = 1;

/// Does the same to several objects and tells of each.
fn each(
    pool: &Pool,
    digests: &[String],
    output: Output,
    done: &str,
    what: impl Fn(&Pool, &Digest) -> Result<()>,
) -> Result<Exit> {
    for digest in found(pool, digests, CHANGED)? {
        what(pool, &digest).with_context(|| digest.hex())?;
        if output.json {
            output.value(&json!({ "digest": digest.hex(), done: true }))?;
        } else {
            output.line(&format!("{} {done}", digest.hex()))?;
        }
    }
    Ok(Exit::Success)
}

/// The exit code is 1 if something is damaged or missing.
fn verify(args: &VerifyArgs, output: Output) -> Result<Exit> {
    let pool = args.which.open()?;
    let objects = pool.objects()?;
    let lengths = objects.iter().filter_map(|object| Some((object.digest?, object.len)));
    let lengths: HashMap<Digest, u64> = lengths.collect();
    let digests = if args.digests.is_empty() {
        objects.iter().filter_map(|object| object.digest).collect()
    } else {
        found(&pool, &args.digests, READ)?
    };
    let total = digests.iter().filter_map(|digest| lengths.get(digest)).sum();
    let bar = progress::of_bytes(output, "hashing", total);
    let mut exit = Exit::Success;
    for digest in digests {
        let state = match pool.verify(&digest, |bytes| bar.inc(bytes))? {
            Verification::Sound => "sound",
            Verification::Missing => "missing",
            Verification::Damaged => "damaged",
        };
        if state != "sound" {
            exit = Exit::Other;
        }
        if output.json {
            output.value(&json!({ "digest": digest.hex(), "state": state }))?;
        } else {
            bar.suspend(|| output.line(&format!("{} {state}", digest.hex())))?;
        }
    }
    bar.finish_and_clear();
    Ok(exit)
}

fn revoke(args: &RevokeArgs, output: Output) -> Result<Exit> {
    let pool = args.which.open()?;
    for reference in &args.references {
        if !pool.revoke_any(reference)? {
            return Err(
                UsageError(format!("{reference} is no reference to data of this pool")).into()
            );
        }
        if output.json {
            output.value(&json!({ "url": reference, "revoked": true }))?;
        } else {
            output.line(&harmless(&format!("{reference} revoked")))?;
        }
    }
    Ok(Exit::Success)
}

/// The objects that are meant, each by its first digits.
fn found(pool: &Pool, told: &[String], least: usize) -> Result<Vec<Digest>> {
    let all: Vec<Digest> = pool.objects()?.iter().filter_map(|object| object.digest).collect();
    told.iter().map(|digits| meant(&all, digits, least).map_err(Into::into)).collect()
}

fn meant(all: &[Digest], told: &str, least: usize) -> Result<Digest, UsageError> {
    let digits = told.trim().to_ascii_lowercase();
    if !digits.is_empty() && digits.len() < least {
        return Err(UsageError(format!(
            "{told:?} may be a slip: write at least {least} digits of the SHA-256"
        )));
    }
    let matching: Vec<_> = all.iter().filter(|digest| digest.hex().starts_with(&digits)).collect();
    match matching[..] {
        [one] if !digits.is_empty() => Ok(*one),
        [] => Err(UsageError(format!(
            "there is nothing in the pool whose SHA-256 begins with {told:?}: `fishplate pool list` \
             lists what is there"
        ))),
        _ => Err(UsageError(format!("{told:?} begins several digests: write more digits"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_digits_do_if_they_are_of_one_only() {
        let (a, b) = (Digest::Sha256([0xaa; 32]), Digest::Sha256([0xab; 32]));
        assert_eq!(meant(&[a, b], "AAA", READ).unwrap(), a);
        assert_eq!(meant(&[a], &a.hex(), CHANGED).unwrap(), a);
        for (told, message) in [("a", "write more digits"), ("", "write more"), ("c", "pool list")]
        {
            let error = meant(&[a, b], told, READ).unwrap_err().to_string();
            assert!(error.contains(message), "{told}: {error}");
        }
        let few = meant(&[a], "aaaaa", CHANGED).unwrap_err().to_string();
        assert!(few.contains("at least 6 digits"), "{few}");
        assert_eq!(meant(&[a], "aaaaaa", CHANGED).unwrap(), a);
    }
}
