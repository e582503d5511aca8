//! `fishplate mpi4py`, with a Python that compiles a small program in the place of mpi4py; and the real one, where `make mpi4py`
//! has compiled it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::built;
use crate::programs::launcher;
use crate::skipped::skipped;

/// A virtual environment whose Python says what it has, and whose pip compiles as mpi4py's build does.
const PYTHON: &str = r#"#!/bin/sh
here=$(dirname "$0")
case "$1" in
  -c) sed "s|PREFIX|$here|" "$here/said.json" ;;
  -m)
    echo "$@" >"$here/pip"
    [ "$MPI4PY_BUILD_MPIABI" = 1 ] || exit 3
    printf '#include <mpi.h>\nint version(void) { return MPI_Init(0, 0) + MPI_ABI_VERSION; }\n' >"$here/MPI.c"
    "$MPICC" -fPIC -c "$here/MPI.c" -o "$here/MPI.o" && "$MPICC" -shared "$here/MPI.o" -o "$here/MPI.so" || exit 4
    sed -i 's/"abi": false/"abi": true/' "$here/said.json" ;;
esac
"#;

fn environment(said: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let bin = directory.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("said.json"), said).unwrap();
    std::fs::write(bin.join("python"), PYTHON).unwrap();
    std::fs::set_permissions(bin.join("python"), PermissionsExt::from_mode(0o755)).unwrap();
    directory
}

fn build_into(environment: &Path, compiler: &str) -> Output {
    let mut command = Command::new(built().join("fishplate"));
    command.arg("mpi4py").env("VIRTUAL_ENV", environment).env("CC", compiler).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const NONE: &str =
    r#"{"prefix": "PREFIX", "version": "4.1.2", "abi": false, "pip": true, "headers": true}"#;

#[test]
fn mpi4py_is_compiled_for_the_abi_once() {
    let environment = environment(NONE);
    let first = build_into(environment.path(), "cc");
    assert!(first.status.success(), "{}", text(&first));
    assert!(text(&first).contains("built mpi4py 4.1.2 in "), "{}", text(&first));
    let bin = environment.path().join("bin");
    let asked = std::fs::read_to_string(bin.join("pip")).unwrap();
    for word in ["--no-cache-dir", "--no-binary mpi4py", "mpi4py==4.1.2"] {
        assert!(asked.contains(word), "{asked}");
    }
    let readelf = Command::new("readelf").arg("-d").arg(bin.join("MPI.so")).output().unwrap();
    let dynamic = String::from_utf8(readelf.stdout).unwrap();
    assert!(dynamic.contains("[libmpi_abi.so.1]"), "{dynamic}");

    std::fs::remove_file(bin.join("pip")).unwrap();
    let second = build_into(environment.path(), "cc");
    assert!(second.status.success(), "{}", text(&second));
    assert!(text(&second).contains("already"), "{}", text(&second));
    assert!(!bin.join("pip").exists());
}

#[test]
fn what_mpi4py_is_compiled_with_is_named_if_it_is_missing() {
    let without_compiler = environment(NONE);
    let without_headers = environment(&NONE.replace(r#""headers": true"#, r#""headers": false"#));
    let without_pip = environment(&NONE.replace(r#""pip": true"#, r#""pip": false"#));
    for (environment, compiler, what, hint) in [
        (
            &without_compiler,
            "no-such-compiler",
            "there is no C compiler `no-such-compiler`",
            "apt install gcc",
        ),
        (&without_headers, "cc", "Python.h is missing", "apt install python3-dev"),
        (&without_pip, "cc", "there is no pip in ", "-m ensurepip"),
    ] {
        let output = build_into(environment.path(), compiler);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        assert!(text(&output).contains(what) && text(&output).contains(hint), "{}", text(&output));
        assert!(!environment.path().join("bin/pip").exists());
    }
}

#[test]
fn mpi4py_is_not_put_into_the_python_of_the_system() {
    for active in [None, Some("")] {
        let mut command = Command::new(built().join("fishplate"));
        command.arg("mpi4py").env_remove("VIRTUAL_ENV");
        let output = command.envs(active.map(|path| ("VIRTUAL_ENV", path))).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains("python3 -m venv .venv"), "{}", text(&output));
    }
}

/// A Python with genuine mpi4py on our library; skipped where there is none, for it is minutes of compiling.
pub(crate) fn python_with_mpi4py() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = root.join(".cache/mpi4py/venv/bin/python");
    let has = Command::new(&python).args(["-c", "import mpi4py, numpy"]).output();
    if has.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    skipped("mpi4py", "mpi4py is not compiled for the ABI: make mpi4py does that");
    None
}

#[test]
fn a_python_program_calls_each_method_that_is_supported() {
    let Some(python) = python_with_mpi4py() else { return };
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/every_method.py");
    for (ranks, transport) in
        [(1, "tcp"), (2, "shared-memory"), (3, "tcp"), (4, "soap"), (5, "shared-memory")]
    {
        let mut run = launcher(ranks);
        let output =
            run.args(["--transport", transport]).arg(&python).arg(&program).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{ranks} ranks, {transport}: {said}");
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(
            printed.ends_with(&format!(" checks of mpi4py at {ranks} ranks\n")),
            "{printed}{said}"
        );
    }
}
