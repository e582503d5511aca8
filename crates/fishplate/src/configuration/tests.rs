use std::ffi::OsString;
use std::path::Path;

use clap::Command;
use fishplate_contract::Limit;
use fishplate_contract::limits::{LimitSetting, LimitUnit};
use fishplate_programs::descriptor::SourceText;

use super::keys::{Key, NO_KEYS, ValueKind, keys};
use super::*;
use crate::commands::grammar;

fn serve() -> Command {
    let mut grammar = grammar();
    grammar.build();
    grammar.find_subcommand("serve").unwrap().clone()
}

/// A directory with a configuration of this text, and all files that the samples name.
fn directory(text: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for name in ["sample", "other", "heat.toml"] {
        std::fs::write(directory.path().join(name), "").unwrap();
    }
    std::fs::write(directory.path().join("fishplate.toml"), text).unwrap();
    directory
}

fn resolved(directory: &Path, words: &[&str]) -> anyhow::Result<Resolution> {
    let config = directory.join("fishplate.toml");
    let first = ["fishplate", "serve", "--config", config.to_str().unwrap()];
    let words: Vec<OsString> = first.iter().chain(words).map(OsString::from).collect();
    Resolution::of(&grammar(), &words)
}

fn setting(resolution: &Resolution, name: &str) -> Setting {
    resolution.settings().into_iter().find(|setting| setting.name == name).unwrap()
}

/// Two values that a flag takes.
fn samples(key: &Key) -> [&'static str; 2] {
    match key.name.as_str() {
        "listen" => ["127.0.0.1:1", "[::1]:2"],
        "public_url" => ["https://a.example/x", "http://b.example"],
        "proxy" => ["10.1.0.7", "10.2.0.0/16"],
        "relay" => ["https://hub.example/sites/a", "https://hub.example/sites/b"],
        "rank_address" => ["10.1.0.7", "::1"],
        "builtin" => ["matrix", "stream"],
        "allow_network" => ["lab=10.1.0.0/16", "hall=10.2.0.0/16"],
        "log_format" => ["json", "text"],
        "log" => ["debug", "warn"],
        _ if key.kind == ValueKind::Boolean => ["true", "false"],
        _ => ["sample", "other"],
    }
}

#[test]
fn every_flag_has_its_key_and_comes_before_it() {
    let command = serve();
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        let known = keys(&command).iter().any(|key| key.id == id);
        assert_eq!(!known, NO_KEYS.contains(&id) || ["help", "version"].contains(&id), "{id}");
    }
    for key in keys(&command) {
        let [sample, other] = samples(&key);
        let said = match key.kind {
            ValueKind::Boolean => sample.to_owned(),
            ValueKind::Text => format!("{sample:?}"),
            ValueKind::List => format!("[{sample:?}, {sample:?}]"),
        };
        let directory = directory(&format!("# Line 1\n{} = {said}\n", key.name));
        let placed = |value: &str| match key.is_path {
            true => directory.path().join(value).to_str().unwrap().to_owned(),
            false => value.to_owned(),
        };
        let of_file = setting(&resolved(directory.path(), &[]).unwrap(), &key.name);
        let times = if key.kind == ValueKind::List { 2 } else { 1 };
        assert_eq!(of_file.values, vec![placed(sample); times], "{}", key.name);
        let file = directory.path().join("fishplate.toml").to_str().unwrap().to_owned();
        assert_eq!(of_file.origin, Origin::File(file, 2), "{}", key.name);
        let word = key.word(other.as_ref()).into_string().unwrap();
        let of_flag = setting(&resolved(directory.path(), &[&word]).unwrap(), &key.name);
        assert_eq!(
            (of_flag.values, of_flag.origin),
            (vec![other.to_owned()], Origin::Flag),
            "{}",
            key.name
        );
    }
}

#[test]
fn every_limit_of_a_server_has_its_key_and_the_flag_comes_before_it() {
    for limit in Limit::all().filter(|limit| limit.setting == LimitSetting::Server) {
        let (said, value, other) = match limit.unit {
            LimitUnit::Count => ("17", "17", "18"),
            LimitUnit::Bytes | LimitUnit::Rate => ("'3MiB'", "3MiB", "4MiB"),
            LimitUnit::Time => ("'90s'", "90s", "91s"),
        };
        let name = limit.name;
        let directory = directory(&format!("[limits]\n{name} = {said}\n"));
        let of_file = setting(&resolved(directory.path(), &[]).unwrap(), name);
        assert!(
            of_file.values == [value] && matches!(of_file.origin, Origin::File(_, 2)),
            "{of_file:?}"
        );
        let words = ["--limit", &format!("{name}={other}")];
        let of_flag = setting(&resolved(directory.path(), &words).unwrap(), name);
        assert!(of_flag.values == [other] && of_flag.origin == Origin::Flag, "{of_flag:?}");
    }
}

#[test]
fn who_names_services_means_no_others() {
    let directory = directory("services = ['heat.toml']\nlisten = '127.0.0.1:1'\n");
    let of_file = resolved(directory.path(), &[]).unwrap();
    assert!(of_file.names_services());
    let heat = directory.path().join("heat.toml").to_str().unwrap().to_owned();
    assert_eq!(setting(&of_file, "services").values, [heat]);
    for words in [&["other"][..], &["-n", "x", "--", "true"], &["--builtin", "matrix"]] {
        let named = resolved(directory.path(), words).unwrap();
        assert!(!named.names_services());
        assert_ne!(setting(&named, "services").origin, Origin::File(String::new(), 1));
        assert!(!setting(&named, "services").values.iter().any(|name| name.ends_with("heat.toml")));
        assert_eq!(setting(&named, "listen").values, ["127.0.0.1:1"]);
    }
}

#[test]
fn mistakes_are_told_at_once_with_line_and_column() {
    let text = "lisen = '127.0.0.1:1'\nlisten = '127.0.0.1'\nlogin = 'yes'\nproxy = ['10.1', 7]\n\
                max_running = 4\ntls_cert = 'missing.pem'\nlog_format = 'xml'\nlog = '=='\n\
                allow_network = ['lab']\ncommand = 'true'\npublic_url = 'https://me:secret@a.example'\n\n\
                [limits]\nmax_runing = 4\nretention = 'long'\nmax_queued = true\nlease = '0s'\n";
    let source = SourceText { name: "fishplate.toml".to_owned(), text: text.to_owned() };
    let file = ConfigurationFile::check(source, Path::new("/owner"), &serve());
    let lines: Vec<String> = file.diagnostics.iter().map(|it| it.line(&file.source)).collect();
    insta::assert_snapshot!(lines.join("\n"));
}
