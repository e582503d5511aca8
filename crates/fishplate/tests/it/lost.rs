//! The job store is lost in each way there is: nothing that jobs left is removed, and all of it can
//! be had again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::processes::kill_all;
use crate::run::User;
use crate::server::{FISHPLATE, Server, until};
use crate::soap::{Version, ask, connect, get, head};

/// The jobs that end by themselves.
const ENDED: u32 = 4;

/// How a store is lost.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Removed,
    Emptied,
    LogCut,
    OlderPut,
}

fn server() -> Server {
    Server::of_script(
        "echo run >> DIR/runs; [ $1 = 9 ] && until [ -e DIR/go ]; do sleep 0.02; done; \
         [ $1 = 3 ] && exit 3; seq $1 1000",
        &["[in val x:int]", ">", "[out file y:raw]"],
    )
}

fn spawn(server: &Server, x: u32) -> String {
    let spawned = ask(server, Version::V11, "spawn", &format!("<x>{x}</x>"));
    spawned.text("job").unwrap_or_else(|| panic!("{spawned:#?}")).to_owned()
}

fn metric(server: &Server, name: &str) -> u64 {
    let metrics = get(server, "/metrics").body;
    let line = metrics.lines().find(|line| line.split(' ').next() == Some(name)).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

fn store_files(data: &Path) -> [std::path::PathBuf; 3] {
    ["jobs.sqlite", "jobs.sqlite-wal", "jobs.sqlite-shm"].map(|name| data.join(name))
}

/// All that a job's owner can have of it.
fn seen(server: &Server, job: &str) -> (Option<String>, Option<String>, Option<String>) {
    let element = format!("<job>{job}</job>");
    let ask = |verb| ask(server, Version::V11, verb, &element);
    let (status, results) = (ask("status"), ask("results"));
    let text = |answer: &crate::soap::Answer, name| answer.text(name).map(str::to_owned);
    (text(&status, "state"), text(&results, "y"), text(&results, "exitCode"))
}

#[test]
fn a_lost_store_costs_no_result() {
    for loss in [Loss::Removed, Loss::Emptied, Loss::LogCut, Loss::OlderPut] {
        let mut server = server();
        let data = server.data();
        let [store, log, shared] = store_files(&data);
        let first = spawn(&server, 1);
        until("it ends", || seen(&server, &first).0.as_deref() == Some("done"));
        server.stop();
        let older = fs::read(&store).unwrap();
        server.restart();
        let jobs: Vec<String> = (1..=ENDED).map(|x| spawn(&server, x)).collect();
        let is_final = |job: &String| {
            seen(&server, job).0.is_some_and(|state| ["done", "failed"].contains(&&*state))
        };
        until("they end", || jobs.iter().all(is_final));
        let before: BTreeMap<&String, _> =
            jobs.iter().map(|job| (job, seen(&server, job))).collect();
        let running = spawn(&server, 9);
        until("it runs", || server.runs() == 6);
        server.kill();
        match loss {
            Loss::Removed => [&store, &log, &shared].map(|file| fs::remove_file(file).unwrap()),
            Loss::Emptied => [&store, &log, &shared].map(|file| drop(File::create(file).unwrap())),
            Loss::LogCut => [&log; 3].map(|file| drop(File::create(file).unwrap())),
            Loss::OlderPut => {
                fs::write(&store, &older).unwrap();
                [&log; 3].map(|file| drop(fs::remove_file(file)))
            }
        };
        server.restart();
        // The first one's record is in what is left of the store, or it is lost as well.
        let lost = match loss {
            Loss::Removed | Loss::Emptied => 6,
            Loss::LogCut | Loss::OlderPut => 5,
        };
        until("they are counted", || metric(&server, "fishplate_jobs_lost") == lost);
        assert!(metric(&server, "fishplate_jobs_disk_bytes") > 0);
        let why = if lost == 6 { "new or empty" } else { "older than they are" };
        until(&format!("the log tells why ({loss:?})"), || server.log().contains(why));
        let path = data.to_str().unwrap();
        let user = User::new();
        let listed = user.json(&["lost", "list", "--data", path]);
        let told = listed["jobs"].as_array().unwrap();
        assert_eq!(told.len() as u64, lost, "{loss:?}: {listed:#}");
        let one = |job: &str| told.iter().find(|it| it["job"] == job).unwrap();
        assert_eq!(
            (&one(&running)["state"], &one(&jobs[0])["state"]),
            (&"running".into(), &"ended".into())
        );
        assert_eq!(
            (&one(&jobs[0])["service"], &one(&jobs[0])["adoptable"]),
            (&"test".into(), &true.into())
        );
        let said = user.run(&["lost", "discard", &running, "--data", path]);
        assert!(said.code == 2 && said.stderr.contains("still runs"), "{said:?}");
        let said = user.run(&["lost", "adopt", "--all", "--data", path]);
        assert_eq!(said.code, 0, "{said:?}");
        until("they are known again", || {
            jobs.iter().all(|job| seen(&server, job).1 == before[job].1)
        });
        let after: BTreeMap<&String, _> =
            jobs.iter().map(|job| (job, seen(&server, job))).collect();
        assert_eq!(after, before, "{loss:?}");
        assert!(before[&jobs[0]].1.is_some() && before[&jobs[2]].2.as_deref() == Some("3"));
        fs::write(server.path("go"), "").unwrap();
        until("what runs ends", || seen(&server, &running).0.as_deref() == Some("done"));
        assert_eq!(server.runs(), 6, "none ran twice");
        let said = user.run(&["lost", "adopt", &running, "--data", path]);
        assert!(said.code == 2 && said.stderr.contains("not lost"), "{said:?}");
    }
}

#[test]
fn a_lost_job_can_be_discarded() {
    let mut server = server();
    let data = server.data();
    let job = spawn(&server, 1);
    until("it ends", || seen(&server, &job).0.as_deref() == Some("done"));
    server.stop();
    fs::remove_file(data.join("jobs.sqlite")).unwrap();
    let (user, path) = (User::new(), data.to_str().unwrap());
    let listed = user.run(&["lost", "list", "--data", path]);
    assert!(listed.stdout.contains(&job) && listed.stdout.contains("test call"), "{listed:?}");
    assert!(!data.join("jobs.sqlite").exists(), "to look makes no store");
    let said = user.run(&["lost", "discard", &job, "--data", path]);
    assert_eq!((said.code, &*said.stdout), (0, &*format!("{job} discarded\n")), "{said:?}");
    assert!(!data.join("jobs").join(&job).exists());
    let again = user.run(&["lost", "discard", &job, "--data", path]);
    assert!(again.code == 2 && again.stderr.contains("lost list"), "{again:?}");
    let nowhere = user.run(&["lost", "list", "--data", "nowhere"]);
    assert!(nowhere.code == 2 && nowhere.stderr.contains("--data"), "{nowhere:?}");
}

#[test]
fn a_damaged_store_stops_the_start_and_removes_nothing() {
    let mut server = server();
    let data = server.data();
    let jobs: Vec<String> = (1..=ENDED).map(|x| spawn(&server, x)).collect();
    until("they end", || {
        jobs.iter().all(|job| seen(&server, job).0.is_some_and(|it| it == "done" || it == "failed"))
    });
    server.stop();
    let store = data.join("jobs.sqlite");
    let sound = fs::read(&store).unwrap();
    for (what, from, len) in [("its header", 0, 100), ("a page", 4096, 4096)] {
        let mut damaged = sound.clone();
        damaged[from..from + len].fill(0xa5);
        fs::write(&store, damaged).unwrap();
        let mut start = Command::new(FISHPLATE);
        start.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&data);
        start.args(["-n", "test", "--", "/bin/true"]).stdin(Stdio::null());
        let ended = start.output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success(), "{what}: {said}");
        assert!(said.contains("damaged") && said.contains("fishplate restore"), "{what}: {said}");
        assert!(jobs.iter().all(|job| data.join("jobs").join(job).join("work/y").exists()));
    }
    fs::write(&store, sound).unwrap();
    server.restart();
    assert_eq!(seen(&server, &jobs[0]).0.as_deref(), Some("done"));
}

#[test]
fn what_another_process_leaves_is_swept_while_the_server_lives() {
    let first = server();
    let data = first.data();
    let mut second = Server::prepare_beside(&first);
    second.script("program", "cat $1 > $2");
    let line = ["-n", "test", "--", "./program", "[in file deck:raw]", "[out file copy:raw]"];
    second.serve(&line);
    let entries = |at: &str| fs::read_dir(data.join(at)).unwrap().count();
    assert_eq!(entries("spool"), 2);
    // Half of a message, and a directory for a job that was not accepted any more.
    let mut stream = connect(&second);
    stream.write_all(head("text/xml", "Content-Length: 9000000\r\n").as_bytes()).unwrap();
    let before = "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Body>\
                  <call xmlns=\"urn:fishplate:test\"><deck>";
    stream.write_all(before.as_bytes()).unwrap();
    let _ = stream.write_all("QUFB".repeat(1 << 20).as_bytes());
    let spooled = || -> usize {
        let spools = fs::read_dir(data.join("spool")).unwrap().flatten();
        spools.map(|spool| fs::read_dir(spool.path()).into_iter().flatten().count()).sum()
    };
    until("some of it is in the spool", || spooled() > 0);
    let job = data.join("jobs").join("0".repeat(32));
    fs::create_dir_all(job.join("work")).unwrap();
    fs::write(job.join("work/deck"), "half").unwrap();
    kill_all(&[i32::try_from(second.pid()).unwrap()]);
    until("the spool has the living one's only", || entries("spool") == 1);
    until("the directory is gone", || !job.exists());
    assert!(!first.log().contains("set aside"), "{}", first.log());
}
