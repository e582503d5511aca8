//! Arrays of numbers: from a user's file through a program and back, in every format.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::run::{User, packagings};
use crate::server::Server;
use crate::skipped::skipped;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/arrays").canonicalize().unwrap()
}

fn example(name: &str) -> Server {
    let mut server = Server::prepare();
    server.serve(&[examples().join(name).to_str().unwrap()]);
    server
}

#[test]
fn a_grid_goes_through_awk_and_comes_back_as_it_is_asked_for() {
    let server = example("smooth.toml");
    let user = User::new();
    let smoothed = "smooth: [[0.0, 4.0, 0.0], [8.0, 4.5, 2.0], [0.0, 4.0, 0.0]]\n";
    for packaging in packagings() {
        let words =
            ["call", server.url(), "grid=[[0,4,0],[8,1,2],[0,4,0]]", "--packaging", packaging];
        assert_eq!(user.succeed(&words), smoothed, "{packaging}");
    }
    user.write("grid.txt", "# a grid\r\n0 4.0D0 0\r\n8 1 2\r\n\r\n0 4 0");
    user.write("grid.csv", "0,4,0\n8,1,2\n0,4,0\n");
    for file in ["grid:grid.txt", "grid:grid.csv", "grid=0 4 0\n8 1 2\n0 4 0"] {
        assert_eq!(user.succeed(&["call", server.url(), file, "sweeps=1"]), smoothed);
    }
    let out = |to: &str| {
        let out = format!("out:smooth={to}");
        assert_eq!(user.succeed(&["call", server.url(), "grid:grid.csv", &out]), "");
        user.read(to)
    };
    assert_eq!(out("s.txt"), b"0.0 4.0 0.0\n8.0 4.5 2.0\n0.0 4.0 0.0\n");
    assert_eq!(out("s.csv"), b"0.0,4.0,0.0\n8.0,4.5,2.0\n0.0,4.0,0.0\n");
    assert_eq!(out("s.bin").len(), 72);
    let npy = out("s.npy");
    assert!(npy.starts_with(b"\x93NUMPY\x01\x00") && npy.len() == 128 + 72);
    assert_eq!(user.succeed(&["call", server.url(), "grid:s.npy", "sweeps=0"]), smoothed);
    let outputs = &user.json(&["call", server.url(), "grid:grid.csv"])["outputs"];
    let values = json!([[0.0, 4.0, 0.0], [8.0, 4.5, 2.0], [0.0, 4.0, 0.0]]);
    let expected = json!({ "type": "double", "shape": [3, 3], "size": 72, "values": values });
    assert_eq!(outputs["smooth"], expected);
}

#[test]
fn a_large_grid_is_only_named_unless_it_is_asked_for() {
    let server = example("smooth.toml");
    let user = User::new();
    user.write("grid.txt", "1 2 3 4 5 6 7 8 9 10\n".repeat(300));
    let said = user.run(&["call", server.url(), "grid:grid.txt"]);
    assert_eq!((said.code, said.stdout.as_str()), (0, ""), "{said:?}");
    assert!(said.stderr.contains("smooth: double[300,10], 23.4 KiB, not written"), "{said:?}");
    assert!(said.stderr.contains("out:smooth=FILE"), "{said:?}");
    let outputs = &user.json(&["call", server.url(), "grid:grid.txt"])["outputs"];
    let expected = json!({ "type": "double", "shape": [300, 10], "size": 24_000 });
    assert_eq!(outputs["smooth"], expected);
    // A job's results as well, from a large array that was parsed once.
    let job = user.succeed(&["spawn", server.url(), "grid:grid.txt", "sweeps=0"]);
    let job = job.trim();
    user.succeed(&["wait", server.url(), job]);
    user.succeed(&["results", server.url(), job, "out:smooth=same.npy"]);
    user.succeed(&["results", server.url(), job, "out:smooth=again.npy"]);
    assert_eq!(user.read("same.npy").len(), 128 + 24_000);
    assert_eq!(user.read("same.npy"), user.read("again.npy"));
}

#[test]
fn what_is_no_array_is_refused_where_it_is_and_an_output_that_is_none_fails() {
    let server = example("smooth.toml");
    let user = User::new();
    user.write("grid.txt", "1 2\n3 x\n");
    let said = user.run(&["call", server.url(), "grid:grid.txt"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("grid.txt, line 2, column 3: \"x\" is not a number"), "{said:?}");
    let said = user.run(&["call", server.url(), "grid=[[1,2],[3]]"]);
    assert_eq!(said.code, 2);
    assert!(said.stderr.contains("a list of 1 stands beside one of 2"), "{said:?}");

    let server = Server::of_file(
        "printf '1 2\\n3 oops\\n' > g; printf '1 2 3\\n' > h",
        "command = './program [in val n:int]'\n\
         [output.g]\npath = 'g'\ntype = 'double[n,]'\noptional = true\n\
         [output.h]\npath = 'h'\ntype = 'int[n]'\n",
    );
    let said = user.run(&["call", server.url(), "n=2"]);
    assert_eq!(said.code, 5, "{said:?}");
    assert!(said.stderr.contains("g, line 2, column 3: \"oops\" is not a number"), "{said:?}");

    let server = Server::of_file(
        "printf '1 2 3\\n' > h",
        "command = './program [in val n:int]'\n[output.h]\npath = 'h'\ntype = 'int[n]'\n",
    );
    assert_eq!(user.succeed(&["call", server.url(), "n=3"]), "h: [1, 2, 3]\n");
    let said = user.run(&["call", server.url(), "n=2"]);
    assert_eq!(said.code, 5, "{said:?}");
    assert!(said.stderr.contains("must be 2 long, as parameter n says"), "{said:?}");
}

#[test]
fn numbers_survive_every_way_to_the_last_bit() {
    let server = Server::of_file(
        "cat t > t2; cat b > b2; cat y > y2; cat f > f2",
        "command = './program'\n\
         [input.t]\ntype = 'double[]'\nfilename = 't'\n\
         [input.b]\ntype = 'double[]'\nfilename = 'b'\nformat = 'raw'\nbyte_order = 'big'\n\
         [input.y]\ntype = 'double[][]'\nfilename = 'y'\nformat = 'npy'\n\
         [input.f]\ntype = 'float[n,2]'\nfilename = 'f'\nformat = 'raw'\norder = 'fortran'\n\
         [output.t]\ntype = 'double[]'\npath = 't2'\n\
         [output.b]\ntype = 'double[]'\npath = 'b2'\nformat = 'raw'\nbyte_order = 'big'\n\
         [output.y]\ntype = 'double[][]'\npath = 'y2'\nformat = 'npy'\n\
         [output.f]\ntype = 'float[n,2]'\npath = 'f2'\nformat = 'raw'\norder = 'fortran'\n",
    );
    let user = User::new();
    let vector = "[0.1, -0.0, 5e-324, 1.7976931348623157e+308, INF, -INF, NaN]";
    let (y, f) = ("[[0.1, 0.2, 0.3], [1.0, 2.0, 3.0]]", "[[0.1, 1.0], [0.2, 2.0], [0.3, 3.0]]");
    for packaging in packagings() {
        let words: [&str; 8] = [
            "call",
            server.url(),
            &format!("t={vector}"),
            &format!("b={vector}"),
            &format!("y={y}"),
            &format!("f={f}"),
            "--packaging",
            packaging,
        ];
        let expected = format!("t: {vector}\nb: {vector}\ny: {y}\nf: {f}\n");
        assert_eq!(user.succeed(&words), expected, "{packaging}");
    }
}

#[test]
fn a_large_array_needs_no_memory_in_the_client() {
    const ROWS: u64 = 20_000;
    const MOST: u64 = 64 << 10; // KiB
    let server = Server::of_file(
        "ln $1 out",
        "command = './program [in file m:double[,1000]]'\n[input.m]\nformat = 'raw'\n\
         [output.m2]\ntype = 'double[,1000]'\npath = 'out'\nformat = 'raw'\n",
    );
    let user = User::new();
    let row: Vec<u8> = (0..1000_u32).flat_map(|at| (f64::from(at) / 7.0).to_le_bytes()).collect();
    user.write("m.bin", row.repeat(usize::try_from(ROWS).unwrap()));
    for to in ["m2.npy", "m2.bin"] {
        let peak = user.peak(&["call", server.url(), "m:m.bin", &format!("out:m2={to}")]);
        assert!(0 < peak && peak < MOST, "{to}: {peak} KiB");
    }
    assert!(user.read("m2.npy")[128..] == user.read("m.bin"));
    let peak = user.peak(&["call", server.url(), "m:m2.npy", "out:m2=m3.bin"]);
    assert!(0 < peak && peak < MOST, "{peak} KiB");
    assert!(user.read("m3.bin") == user.read("m.bin"));
}

/// A Python that has NumPy, if there is one.
fn numpy() -> Option<PathBuf> {
    let project = examples().join("../../.venv/bin");
    let has_numpy = |python: &Path| {
        let mut command = Command::new(python);
        let tried = command.args(["-c", "import numpy"]).stderr(Stdio::null()).status();
        tried.is_ok_and(|status| status.success())
    };
    [project.join("python3"), PathBuf::from("python3")].into_iter().find(|it| has_numpy(it))
}

#[test]
fn what_numpy_wrote_in_fortran_order_comes_in_c_order() {
    let Some(python) = numpy() else {
        skipped("numpy", "no Python with NumPy (examples/pipe/install.sh brings one)");
        return;
    };
    let mut server = Server::prepare();
    let script = format!(
        "exec '{}' '{}' \"$@\"",
        python.display(),
        examples().join("transpose.py").display()
    );
    server.script("transpose.py", &script);
    std::fs::copy(examples().join("transpose.toml"), server.path("transpose.toml")).unwrap();
    server.serve(&["transpose.toml"]);
    let user = User::new();
    let transposed = "transposed: [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]\n";
    let words = ["call", server.url(), "matrix=[[1,2,3],[4,5,6]]"];
    assert_eq!(user.succeed(&words), transposed);
    // Whole numbers that NumPy wrote by default, for doubles.
    let save = "import numpy; numpy.save('m', numpy.arange(1, 7).reshape(2, 3))";
    let mut command = Command::new(&python);
    assert!(command.args(["-c", save]).current_dir(user.path("")).status().unwrap().success());
    assert_eq!(user.succeed(&["call", server.url(), "matrix:m.npy"]), transposed);
    // And it reads what we write.
    user.succeed(&["call", server.url(), "matrix:m.npy", "out:transposed=t.npy"]);
    let check = "import numpy; t = numpy.load('t.npy'); \
                 assert t.dtype == 'f8' and (t == numpy.load('m.npy').T).all()";
    let mut command = Command::new(&python);
    assert!(command.args(["-c", check]).current_dir(user.path("")).status().unwrap().success());
}
