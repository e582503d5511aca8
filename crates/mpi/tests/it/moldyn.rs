//! The paper's application, in C and for mpi4py, against the energy that is published for it.

use std::path::{Path, PathBuf};

use crate::mpi4py::python_with_mpi4py;
use crate::programs::{compile, launcher};

/// Cells in each direction, and the kinetic energy after 50 steps (Java Grande's validation).
const PUBLISHED: [(&str, f64); 2] = [("8", 1_731.430_662_533_435_7), ("13", 7_397.392_307_839_352)];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs it, and compares what it prints. Ranks sum up in another order than one.
fn gives_the_published_energy(ranks: u32, program: &[&Path], cells: &str, published: f64) {
    let output = launcher(ranks).args(program).arg(cells).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{cells} cells at {ranks} ranks: {said}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let energy: f64 = printed.strip_prefix("ek ").unwrap().trim_end().parse().unwrap();
    let error = (energy - published).abs() / published;
    assert!(error < 1e-10, "{cells} cells at {ranks} ranks: {energy} is not {published}");
}

#[test]
fn moldyn_in_c_has_the_published_energy() {
    let program = compile(&root().join("examples/moldyn/moldyn.c"), &["-O2", "-lm"]);
    for ranks in [1, 2, 4] {
        let (cells, published) = PUBLISHED[0];
        gives_the_published_energy(ranks, &[&program], cells, published);
    }
    let (cells, published) = PUBLISHED[1];
    gives_the_published_energy(4, &[&program], cells, published);
}

#[test]
fn moldyn_with_mpi4py_has_the_published_energy() {
    let Some(python) = python_with_mpi4py() else { return };
    let script = root().join("examples/moldyn/moldyn.py");
    let (cells, published) = PUBLISHED[0];
    for ranks in [1, 2, 4] {
        gives_the_published_energy(ranks, &[&python, &script], cells, published);
    }
}
