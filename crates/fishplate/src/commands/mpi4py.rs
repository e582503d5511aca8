//! `fishplate mpi4py`: mpi4py built for the MPI standard's ABI, into a virtual environment.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use fishplate_launch::library;
use serde_json::Value;
use tempfile::TempDir;

use crate::exit::Exit;
use crate::output::Output;
use crate::output::failure::{RecoveryHint, UsageError};

/// The version that `make mpi4py` runs the tests of.
const VERSION: &str = "4.1.2";
/// The ABI's header, against which it is compiled.
const HEADER: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../mpi/include/mpi.h"));
/// Asks a Python for the mpi4py that it has, whether that is for the ABI, and whether it has pip and can compile extensions.
const PROBE: &str = include_str!("mpi4py.py");

/// Build mpi4py for the MPI standard's ABI into a virtual environment, once
///
/// The packages of mpi4py on PyPI are for the ABIs of MPICH and Open MPI. This compiles its source for the
/// standard's, with pip, in 1 to 5 minutes; then `fishplate run -n 4 python script.py` runs scripts of mpi4py. It
/// needs a C compiler and the headers of Python, says so if one is missing, and leaves alone what is built already.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  python3 -m venv .venv && . .venv/bin/activate
  fishplate mpi4py
  fishplate run -n 4 python -m mpi4py.bench helloworld")]
pub(crate) struct Args {
    /// A Python of another environment than the active one
    #[arg(long, value_name = "PROGRAM")]
    python: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &Args, output: Output) -> Result<Exit> {
    let python = python(args.python.clone(), std::env::var_os("VIRTUAL_ENV"))?;
    let found = probe(&python)?;
    let place = found["prefix"].as_str().unwrap_or_default();
    if let (Some(version), Some(true)) = (found["version"].as_str(), found["abi"].as_bool()) {
        output.note(&format!("mpi4py {version} in {place} is built for the MPI ABI already"));
        return Ok(Exit::Success);
    }
    if found["pip"] != true {
        let hints = [
            format!("{} -m ensurepip puts it there", python.display()),
            "of an environment that uv has made: uv pip install pip".to_owned(),
        ];
        let error = anyhow::anyhow!("there is no pip in {place}, which builds mpi4py");
        return Err(error.context(RecoveryHint(hints.to_vec())));
    }
    if found["headers"] != true {
        let headers = "Python.h is missing: mpi4py is compiled against the headers of Python";
        return Err(missing(headers, "python3-dev", "python3-devel"));
    }
    let Some(library) = super::run::mpi_library()? else {
        let places = library::PLACES.join(", ");
        bail!("{} is not installed with this fishplate (beside it: {places})", library::SONAME);
    };
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let tools = wrapper(&compiler, &library)?;

    output.note(&format!(
        "building mpi4py {VERSION} for the MPI ABI into {place}, in 1 to 5 minutes"
    ));
    let begun = Instant::now();
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        // A package that is there may be for another ABI; so may one that pip has kept, and ours is not for others.
        .args(["--force-reinstall", "--no-cache-dir", "--no-deps", "--no-binary", "mpi4py"])
        .arg(format!("mpi4py=={VERSION}"))
        .env("MPICC", tools.path().join("mpicc"))
        .env("FISHPLATE_CC", &compiler)
        .env("FISHPLATE_MPI_LIBRARY", library.parent().unwrap_or(&library))
        .env("MPI4PY_BUILD_MPIABI", "1")
        .stdin(Stdio::null())
        .stdout(io::stderr());
    let ended = pip.status().with_context(|| format!("{} can't be started", python.display()))?;
    if !ended.success() {
        bail!("pip could not build mpi4py ({ended}); what it said stands above");
    }
    if probe(&python)?["abi"] != true {
        bail!("pip has installed an mpi4py in {place} that is not for the MPI ABI");
    }
    let took = begun.elapsed().as_secs();
    output.note(&format!("built mpi4py {VERSION} in {took} s; try: fishplate run -n 4 python -m mpi4py.bench helloworld"));
    Ok(Exit::Success)
}

/// The Python to install into: never the system's, whose packages are its own affair.
fn python(given: Option<PathBuf>, active: Option<OsString>) -> Result<PathBuf> {
    let active = active.filter(|directory| !directory.is_empty());
    given.or_else(|| Some(PathBuf::from(active?).join("bin/python"))).ok_or_else(|| {
        let hint = "python3 -m venv .venv && . .venv/bin/activate makes one; --python PROGRAM names another Python";
        let error = UsageError("no virtual environment is active (VIRTUAL_ENV is not set)".to_owned());
        anyhow::Error::from(error).context(RecoveryHint(vec![hint.to_owned()]))
    })
}

/// What the Python says of itself.
fn probe(python: &Path) -> Result<Value> {
    let asked = Command::new(python).args(["-c", PROBE]).stdin(Stdio::null()).output();
    let asked = asked.with_context(|| format!("{} can't be started", python.display()))?;
    serde_json::from_slice(&asked.stdout).with_context(|| {
        let said = String::from_utf8_lossy(&asked.stderr);
        format!("{} is no Python 3.8 or later: {}", python.display(), said.trim())
    })
}

/// A directory with an `mpicc` for the ABI, and the header and the library that it uses.
fn wrapper(compiler: &OsStr, library: &Path) -> Result<TempDir> {
    let probed = Command::new("sh")
        .args(["-c", "exec $0 --version"])
        .arg(compiler)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if !probed.success() {
        let what = format!(
            "there is no C compiler `{}`, and mpi4py has to be compiled",
            compiler.display()
        );
        return Err(missing(&what, "gcc libc6-dev", "gcc"));
    }
    let directory = tempfile::Builder::new().prefix("fishplate-mpi4py-").tempdir()?;
    std::fs::write(directory.path().join("mpi.h"), HEADER)?;
    symlink(library, directory.path().join("libmpi_abi.so"))?;
    // Installed under its own name, it is found without `fishplate run` too: by a Python that is a domain of one rank.
    let script = "#!/bin/sh
here=${0%/*}
exec $FISHPLATE_CC -I \"$here\" \"$@\" -L \"$here\" -lmpi_abi -Wl,-rpath,\"$FISHPLATE_MPI_LIBRARY\"
";
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o700)
        .open(directory.path().join("mpicc"))?;
    io::Write::write_all(&mut file, script.as_bytes())?;
    Ok(directory)
}

/// An error for want of something that distributions have.
fn missing(what: &str, debian: &str, fedora: &str) -> anyhow::Error {
    let hints = [
        format!("Debian, Ubuntu: apt install {debian}"),
        format!("Fedora, RHEL: dnf install {fedora}"),
    ];
    anyhow::anyhow!("{what}").context(RecoveryHint(hints.to_vec()))
}
