//! A backup of a server that works, and the server that is restored from it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::curl::curl;
use crate::disk;
use crate::run::User;
use crate::server::{Server, until};
use crate::soap::{Version, ask, get};

const LINE: [&str; 6] = ["-n", "test", "--", "./program", "[in val x:int]", "[out file y:raw]"];

/// What is called.
const CALLED: u32 = 5;

/// What job number `x` writes.
fn written(x: u32) -> String {
    (0..2000).map(|n| format!("{x} {n}\n")).collect()
}

fn program(server: &Server) {
    server.script("program", "echo run $1 >> DIR/runs; seq -f \"$1 %.0f\" 0 1999 > $2");
}

fn server() -> Server {
    let mut server = Server::prepare();
    program(&server);
    server.serve(&LINE);
    server
}

fn restored(data: PathBuf) -> Server {
    let mut server = Server::prepare_on(data);
    program(&server);
    server.serve(&LINE);
    server
}

fn spawn(server: &Server, x: u32) -> String {
    let spawned = ask(server, Version::V11, "spawn", &format!("<x>{x}</x>"));
    spawned.text("job").unwrap_or_else(|| panic!("{spawned:#?}")).to_owned()
}

fn job(job: &str) -> String {
    format!("<job>{job}</job>")
}

fn metric(server: &Server, name: &str) -> u64 {
    let metrics = get(server, "/metrics").body;
    let line = metrics.lines().find(|line| line.split(' ').next() == Some(name)).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// All files below a directory with their bytes.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(root).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.insert(entry.path(), fs::read(entry.path()).unwrap_or_default());
        }
    }
    found
}

#[test]
fn a_backup_under_load_is_restored_to_the_byte() {
    let server = server();
    let (user, data) = (User::new(), server.data());
    let to = |n: u32| user.path(format!("backup{n}"));
    let base = format!("http://{}", server.address());
    let session = user.succeed(&["session", "open", &base]);
    let session = session.trim();
    let said = user.succeed(&["call", server.url(), "x=777", "--session", session]);
    let in_session = said.strip_prefix("y: ").unwrap().trim().to_owned();
    let listed = user.json(&["jobs", server.url()]);
    let with_session = listed["jobs"][0]["job"].as_str().unwrap();
    user.write("mesh", written(888));
    let granted = user.succeed(&["put", "mesh", "--to", &base]).trim().to_owned();
    let known: Mutex<BTreeMap<String, u32>> = Mutex::default();
    let (next, over) = (AtomicU32::new(1), AtomicBool::new(false));
    let mut ended = 0;
    std::thread::scope(|scope| {
        for n in 0..3 {
            let (server, known, next, over) = (&server, &known, &next, &over);
            scope.spawn(move || {
                let mut mine = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    let x = next.fetch_add(1, Ordering::Relaxed);
                    let id = spawn(server, x);
                    known.lock().unwrap().insert(id.clone(), x);
                    mine.push(id);
                    // Some are removed while they are being brought, and calls leave nothing.
                    if n == 0 && mine.len() > 5 {
                        ask(server, Version::V11, "remove", &job(&mine.remove(0)));
                        assert_eq!(ask(server, Version::V11, "call", "<x>5</x>").status, 200);
                    }
                }
            });
        }
        until("there is a load", || known.lock().unwrap().len() > 40);
        for n in 0..3 {
            let path = to(n);
            let words = ["backup", path.to_str().unwrap(), "--data", data.to_str().unwrap()];
            let told = user.json(&words);
            ended = told["jobs"].as_u64().unwrap();
            assert!(
                ended > 10 && told["sessions"] == 1 && told["objects"].as_u64() >= Some(1),
                "{told}"
            );
        }
        over.store(true, Ordering::Relaxed);
    });
    let known = known.into_inner().unwrap();
    let before = files(&to(2));
    let target = user.path("restored");
    let backup = to(2);
    let words = ["restore", backup.to_str().unwrap(), "--data", target.to_str().unwrap()];
    let said = user.succeed(&words);
    assert!(said.contains(&format!("{ended} jobs")), "{said}");
    let second = restored(target.clone());
    let listed = user.json(&["jobs", second.url(), "--all"]);
    let mut done = 0;
    for report in listed["jobs"].as_array().unwrap() {
        let id = report["job"].as_str().unwrap();
        let results = ask(&second, Version::V11, "results", &job(id));
        match report["state"].as_str().unwrap() {
            // Its output is the session's.
            "done" if id == with_session => {}
            "done" => {
                done += 1;
                let bytes = results.text("y").unwrap_or_else(|| panic!("{results:#?}"));
                let bytes = base64_simd::STANDARD.decode_to_vec(bytes).unwrap();
                // Of calls only the server knows the jobs.
                let x = known.get(id).copied().unwrap_or(CALLED);
                assert!(bytes == written(x).into_bytes(), "{id}: {report}");
            }
            "unknown" => results.assert_fault(Version::V11, "OutcomeUnknown"),
            other => panic!("{id} is {other}"),
        }
    }
    assert!(done > 10, "{listed:#}");
    let directories = || fs::read_dir(target.join("jobs")).unwrap().count() as u64;
    until("housekeeping has looked", || metric(&second, "fishplate_jobs_disk_bytes") > 0);
    assert_eq!((metric(&second, "fishplate_jobs_lost"), directories()), (0, ended));
    assert_eq!(second.runs(), 0, "nothing runs anew");
    // References and sessions are good, wherever the server is now.
    let here =
        |url: &str| url.replace(&server.address().to_string(), &second.address().to_string());
    assert!(curl(&[&here(&granted)]).body == written(888).into_bytes());
    assert!(curl(&[&here(&in_session)]).body == written(777).into_bytes());
    // It goes on as any server, and what it does is not seen in the backup.
    let id = spawn(&second, 9999);
    until("a new job ends", || {
        ask(&second, Version::V11, "status", &job(&id)).text("state") == Some("done")
    });
    for id in known.keys() {
        ask(&second, Version::V11, "remove", &job(id));
    }
    until("they are gone", || known.keys().all(|id| !target.join("jobs").join(id).exists()));
    assert!(files(&to(2)) == before, "the backup stays as it is");
}

#[test]
fn what_can_not_be_backed_up_or_restored_says_what_to_do() {
    let mut server = server();
    let id = spawn(&server, 1);
    until("it ends", || {
        ask(&server, Version::V11, "status", &job(&id)).text("state") == Some("done")
    });
    let (user, data) = (User::new(), server.data());
    let data = data.to_str().unwrap();
    let refused = |words: &[&str], code: i32, what: &str| {
        let said = user.run(words);
        assert!(said.code == code && said.stderr.contains(what), "{words:?}: {said:?}");
    };
    user.succeed(&["backup", "there", "--data", data]);
    refused(&["backup", "there", "--data", data], 2, "is not empty");
    refused(&["backup", "new", "--data", "nowhere"], 2, "--data");
    refused(&["restore", "nowhere", "--data", "new"], 2, "is no backup");
    refused(&["restore", "there", "--data", data], 2, "is not empty");
    fs::remove_file(user.path("there/backup.json")).unwrap();
    refused(&["restore", "there", "--data", "new"], 2, "broken off");
    assert!(!user.path("new").exists(), "nothing is left of what failed");
    if let Some(_disk) = disk::small(&user.path("small"), 1) {
        user.write("large", vec![7; 3 << 20]);
        user.succeed(&["put", "large", "--to", &format!("http://{}", server.address())]);
        refused(&["backup", "small", "--data", data], 1, "no room");
        assert_eq!(fs::read_dir(user.path("small")).unwrap().count(), 0);
    }
    server.stop();
}
