//! The configuration file: a server that needs no flag, and what tells who said what.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::run::User;
use crate::server::{FISHPLATE, Server};

const HEAT: &str = "command = 'echo [in val x:int] > [out file y:int]'\n";

#[test]
fn a_server_with_a_file_needs_no_flag() {
    let user = User::new();
    std::fs::create_dir(user.path("services")).unwrap();
    user.write("services/heat.toml", HEAT);
    // In the directory of its services it is none of them.
    user.write(
        "services/fishplate.toml",
        "services = ['.']\nlisten = '127.0.0.1:0'\ndata = 'data'\n",
    );
    let mut server = Command::new(FISHPLATE)
        .arg("serve")
        .current_dir(user.path("services"))
        .env_remove("FISHPLATE_DATA")
        .env_remove("FISHPLATE_CONFIG")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let told = BufReader::new(server.stdout.take().unwrap()).lines().next();
    let told = told.expect("a server that serves says where").unwrap();
    let (name, url) = told.split_once(' ').unwrap();
    assert_eq!(name, "heat");
    assert_eq!(user.succeed(&["call", url, "x=3"]), "y: 3\n");
    assert!(user.path("services/data/jobs.sqlite").exists());
    kill(Pid::from_raw(server.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    assert!(server.wait().unwrap().success());
}

#[test]
fn flags_come_before_the_environment_and_that_before_the_file() {
    let user = User::new();
    user.write("fishplate.toml", "data = 'of-file'\nlogin = true\nlog = 'warn'\n");
    let from = |variables: &[(&str, &str)], words: &[&str], name: &str| {
        let said = user.run_in(variables, &[&["config", "--json"], words].concat());
        let told: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
        let settings = told["settings"].as_array().unwrap();
        let found = settings.iter().find(|setting| setting["name"] == name).unwrap();
        (found["value"].clone(), found["from"].as_str().unwrap().to_owned())
    };
    let directory = user.path(".").canonicalize().unwrap();
    let path = |name: &str| serde_json::json!(directory.join(name));
    assert_eq!(from(&[], &[], "data"), (path("of-file"), "file".into()));
    let variable = [("FISHPLATE_DATA", "/of-environment")];
    assert_eq!(from(&variable, &[], "data"), ("/of-environment".into(), "environment".into()));
    let words = ["--data", "/of-flag"];
    assert_eq!(from(&variable, &words, "data"), ("/of-flag".into(), "command line".into()));
    assert_eq!(from(&[], &["--login=false"], "login"), (false.into(), "command line".into()));
    assert_eq!(from(&[], &[], "login"), (true.into(), "file".into()));
    assert_eq!(from(&[], &[], "listen"), ("127.0.0.1:8080".into(), "default".into()));
    // Another file, by its variable.
    user.write("other.toml", "log = 'debug'\n");
    let other = [("FISHPLATE_CONFIG", "other.toml")];
    assert_eq!(from(&other, &[], "log"), ("debug".into(), "file".into()));
    assert_eq!(from(&other, &[], "login"), (false.into(), "default".into()));
}

#[test]
fn what_config_prints_is_a_configuration_that_says_the_same() {
    let user = User::new();
    user.write("s.toml", HEAT);
    user.write(
        "fishplate.toml",
        "services = ['s.toml']\nlog = 'fishplate_jobs=debug'\n[limits]\nretention = '2d'\n",
    );
    let words = ["--allow-host", "a \"b\" \\c", "--limit", "max_running=3", "--open"];
    let first = user.succeed(&[&["config"], &words[..]].concat());
    user.write("second.toml", &first);
    let second = user.succeed(&["config", "--config", "second.toml"]);
    let settings = |text: &str| {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| {
                line.rsplit_once("  # ").map_or(line, |(line, _)| line).trim_end().to_owned()
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(settings(&first), settings(&second));
    assert!(settings(&first).contains(&"max_running = \"3\"".to_owned()), "{first}");
    assert_eq!(user.run(&["check", "fishplate.toml"]).code, 0);
}

#[test]
fn mistakes_stop_the_server_and_are_shown_in_their_lines() {
    let user = User::new();
    user.write("s.toml", "command = 'true [in val x:itn]'\n");
    user.write("fishplate.toml", "services = ['s.toml']\nlisen = ':0'\n");
    for words in [&["serve"][..], &["config"], &["check", "fishplate.toml"]] {
        let said = user.run(words);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.stderr.contains("fishplate.toml:2:1"), "{said:?}");
        assert!(said.stderr.contains("`listen` is one"), "{said:?}");
    }
    // What its services say is part of the check.
    assert!(user.run(&["check", "fishplate.toml"]).stderr.contains("s.toml:1:"));
    for (file, words, told) in [
        ("tls_cert = 's.toml'\n", &["serve"][..], "--tls-cert needs --tls-key"),
        (
            "login = true\n",
            &["serve", "--open", "s.toml", "--config", "fishplate.toml"],
            "leave one of them out",
        ),
        ("log = 'info'\n", &["serve"], "nothing to serve"),
    ] {
        user.write("s.toml", HEAT);
        user.write(
            "fishplate.toml",
            format!(
                "{file}{}",
                if told.starts_with("--tls") { "services = ['s.toml']\n" } else { "" }
            ),
        );
        let said = user.run(&[words, &["--listen", "127.0.0.1:0"]].concat());
        assert!(said.code == 2 && said.stderr.contains(told), "{said:?}");
    }
}

#[test]
fn a_file_without_services_yet_serves() {
    let mut server = Server::prepare();
    std::fs::create_dir(server.path("services")).unwrap();
    std::fs::write(
        server.path("fishplate.toml"),
        "services = ['services']\nbuiltin = ['matrix']\n",
    )
    .unwrap();
    server.serve(&[]);
    assert_eq!(server.names(), ["matrix"]);
    server.stop();
}
