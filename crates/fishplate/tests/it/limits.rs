//! Limits on jobs, enforced and named; and memory that does not grow with what passes through.

use std::time::Duration;

use serde_json::json;

use crate::processes;
use crate::run::User;
use crate::run::packagings;
use crate::server::{Server, until};
use crate::soap::{Version, ask};

/// What a server may take at most while files of 50 MB pass through it in either direction: some
/// 25 MiB are usual, because the allocator gives back what was freed only after a while. Whoever holds
/// such a file in memory takes more than this.
const PEAK: u64 = 44 << 20;

fn limited(script: &str, limits: &str) -> Server {
    let description = format!(
        "name = \"test\"\ncommand = \"./program > [out file y:raw]\"\n[limits]\n{limits}\n"
    );
    Server::of_file(script, &description)
}

#[test]
fn a_limit_ends_the_whole_job_and_is_named_in_its_outcome() {
    for (limit, value, script) in [
        ("wall_time", "300ms", "sleep 1000 & setsid sleep 1000"),
        // Should nobody stop it, the shell does.
        ("memory", "64MiB", "ulimit -v 4000000; tail /dev/zero & wait"),
        ("output_size", "1MiB", "mkdir deep; yes > deep/file"),
    ] {
        let server = limited(script, &format!("{limit} = \"{value}\"\nkill_grace = \"100ms\""));
        let user = User::new();
        let url = server.url();
        let job = user.succeed(&["spawn", url]);
        let job = job.trim();
        assert_eq!(user.run(&["wait", url, job]).code, 5);
        let said = user.run(&["results", url, job, "--json"]);
        let error: serde_json::Value = serde_json::from_str(&said.stderr).unwrap();
        let error = &error["error"];
        assert_eq!(
            (&error["code"], &error["limit"]["name"]),
            (&json!("LimitExceeded"), &json!(limit))
        );
        let status = user.json(&["status", url, job]);
        assert_eq!(status["state"], "failed", "{status}");
        assert!(status["message"].as_str().unwrap().contains(limit), "{status}");
        assert!(["cgroup", "sweep"].map(|how| json!(how)).contains(&status["endedBy"]), "{status}");
        assert!(processes::of_jobs(&server.path("data")).is_empty());
    }
}

#[test]
fn a_full_queue_says_so_and_when_to_try_again() {
    let mut server = Server::prepare();
    server.script("program", "echo run >> DIR/runs; until [ -e DIR/go ]; do sleep 0.05; done");
    server.serve(&[
        "--limit",
        "max_queued=1",
        "--limit",
        "max_running=1",
        "-n",
        "test",
        "--",
        "./program",
    ]);
    let user = User::new();
    let first = user.succeed(&["spawn", server.url()]);
    until("it runs", || server.runs() == 1);
    let second = user.succeed(&["spawn", server.url()]);
    for verb in ["spawn", "call"] {
        let full = ask(&server, Version::V11, verb, "");
        full.assert_fault(Version::V11, "QueueFull");
        assert_eq!((full.limit(), full.text("retryAfter")), (Some("max_queued"), Some("5")));
        assert!(full.head.contains("retry-after: 5"), "{full:#?}");
    }
    std::fs::write(server.path("go"), "").unwrap();
    for job in [first, second] {
        assert_eq!(user.succeed(&["wait", server.url(), job.trim()]), "done\n");
    }
    assert_eq!(user.run(&["call", server.url()]).code, 0);
    assert_eq!(server.runs(), 3);
}

#[test]
fn ended_jobs_go_when_there_are_too_many_or_they_are_too_old() {
    for (limit, kept) in [("keep_jobs=2", 2), ("retention=1s", 0)] {
        let mut server = Server::prepare();
        server.script("program", "echo hello > file");
        server.serve(&["--limit", limit, "-n", "test", "--", "./program"]);
        let user = User::new();
        let mut jobs = Vec::new();
        for _ in 0..5 {
            let job = user.succeed(&["spawn", server.url()]).trim().to_owned();
            // It may be gone by then.
            assert!([0, 8].contains(&user.run(&["wait", server.url(), &job]).code));
            jobs.push(job);
        }
        let directories = || {
            let entries = std::fs::read_dir(server.path("data/jobs")).unwrap().flatten();
            let mut names: Vec<String> =
                entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        until(&format!("{limit} is kept"), || directories().len() == kept);
        let listed = user.json(&["jobs", server.url()]);
        let listed = listed["jobs"].as_array().unwrap();
        assert_eq!(listed.len(), kept, "{limit}");
        if kept > 0 {
            // The oldest go first.
            let mut newest = jobs.split_off(5 - kept);
            newest.sort();
            assert_eq!(directories(), newest);
        }
    }
}

#[test]
fn a_quota_of_ended_jobs_refuses_new_ones_until_some_are_removed() {
    let mut server = Server::prepare();
    server.script("program", "head -c 3000000 /dev/zero");
    server.serve(&[
        "--limit",
        "disk_quota=2MiB",
        "-n",
        "test",
        "--",
        "./program",
        ">",
        "[out file y:raw]",
    ]);
    let user = User::new();
    let job = user.succeed(&["spawn", server.url()]);
    user.succeed(&["wait", server.url(), job.trim()]);
    until("the quota is used up", || ask(&server, Version::V11, "call", "").status == 500);
    let refused = ask(&server, Version::V11, "spawn", "");
    refused.assert_fault(Version::V11, "QuotaExceeded");
    assert_eq!(refused.limit(), Some("disk_quota"), "{refused:#?}");
    let metrics = crate::soap::get(&server, "/metrics").body;
    let disk = metrics.lines().find_map(|line| line.strip_prefix("fishplate_jobs_disk_bytes "));
    assert!(disk.unwrap().parse::<u64>().unwrap() >= 3_000_000, "{disk:?}");
    user.succeed(&["remove", server.url(), job.trim()]);
    until("there is room again", || ask(&server, Version::V11, "call", "").status == 200);
}

#[test]
fn a_large_file_costs_the_server_no_memory_in_either_direction() {
    let server =
        Server::of_script("cat \"$1\" > \"$2\"", &["[in file deck:raw]", "[out file copy:raw]"]);
    let user = User::new();
    // No two chunks of it are the same.
    let bytes: Vec<u8> = (0..12_500_000_u32)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).rotate_left(7).to_le_bytes())
        .collect();
    user.write("deck", &bytes);
    for packaging in packagings() {
        let words = ["call", server.url(), "deck:deck", "out:copy", "--packaging", packaging];
        user.succeed(&words);
        assert!(user.read("copy") == bytes, "{packaging}: the file came back changed");
    }
    let peak = processes::peak_memory(server.pid());
    println!("peak of the server: {} MiB", peak >> 20);
    assert!(peak < PEAK, "the server took {} MiB", peak >> 20);
}

#[test]
fn a_server_that_is_stopped_does_not_wait_for_its_callers() {
    let mut server = Server::prepare();
    server.script("program", "sleep 1000");
    server.serve(&["--limit", "stop_time=1s", "-n", "test", "--", "./program"]);
    let user = User::new();
    let job = user.succeed(&["spawn", server.url()]);
    let call = user.start(&["call", server.url(), "--no-key"]);
    until("both run", || processes::of_jobs(&server.path("data")).len() >= 2);
    let begun = std::time::Instant::now();
    server.stop();
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(crate::run::ended(call).code, 6);
    server.restart();
    assert_eq!(user.succeed(&["kill", server.url(), job.trim()]), "killed\n");
    let jobs = user.json(&["jobs", server.url(), "--state", "running"]);
    for report in jobs["jobs"].as_array().unwrap() {
        user.succeed(&["kill", server.url(), report["job"].as_str().unwrap()]);
    }
    until("none is left", || processes::of_jobs(&server.path("data")).is_empty());
}
