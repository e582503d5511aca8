//! Addresses and pages: what a server publishes.

use std::fs;

use crate::run::User;
use crate::server::Server;
use crate::soap::{Version, get, post_as, wrapper};

const PUBLIC: &str = "https://solver.example.org/services";

const DESCRIBED: &str = r#"
name = "test"
title = "Bending <beams>"
documentation = "Bends a beam & tells how far."
command = "./program [in val load:double] > [out file bend:double]"
[input.load]
help = "Force at the tip"
unit = "kN"
"#;

#[test]
fn the_public_url_decides_every_address() {
    let mut server = Server::prepare();
    server.script("program", "echo 0.5");
    fs::write(server.path("service.toml"), DESCRIBED).unwrap();
    server.serve_behind(&format!("{PUBLIC}/"), &["service.toml"]);
    let url = format!("{PUBLIC}/test");
    assert_eq!(server.url(), url);
    let local = server.address().to_string();
    // A proxy may or may not have taken the path off.
    for path in ["/test", "/services/test"] {
        let wsdl = get(&server, &format!("{path}?wsdl"));
        assert_eq!(wsdl.status, 200);
        assert_eq!(wsdl.body.matches(&format!("location=\"{url}\"")).count(), 2, "{}", wsdl.body);
        let page = get(&server, path);
        assert!(page.body.contains(&format!(">{url}?wsdl<")), "{}", page.body);
        assert!(page.body.contains(&format!("fishplate call {url} ")), "{}", page.body);
        for body in [&wsdl.body, &page.body] {
            assert!(!body.contains(&local) && !body.contains("127.0.0.1"), "{body}");
        }
    }
    let index = get(&server, "/");
    let path = "href=\"/services/test\"";
    assert!(index.body.contains(path) && !index.body.contains(&local), "{}", index.body);
}

#[test]
fn a_page_tells_what_a_service_does_and_how_to_call_it() {
    let server = Server::of_file("echo 0.5", DESCRIBED);
    let page = get(&server, "/test");
    assert!(page.head.contains("content-type: text/html"), "{}", page.head);
    for text in [
        "Bending &lt;beams&gt;",
        "Bends a beam &amp; tells how far.",
        "<code>load</code>",
        "double",
        "kN",
        "Force at the tip",
        "<code>bend</code>",
        "curl -s",
        "?wsdl",
    ] {
        assert!(page.body.contains(text), "{text}: {}", page.body);
    }
    // The command of the page is the command that works.
    let from = page.body.find("fishplate call ").unwrap();
    let line = &page.body[from..from + page.body[from..].find('<').unwrap()];
    let words: Vec<&str> = line.split_ascii_whitespace().skip(1).collect();
    let user = User::new();
    user.succeed(&words);
    assert_eq!(user.read("bend"), b"0.5\n");
}

#[test]
fn the_commands_on_the_page_of_a_service_with_arrays_work() {
    let server = Server::of_file(
        "wc -w < $2",
        "name = \"test\"\ncommand = \"./program [in val n:int] [in file grid:double[n,3]] > \
         [out file count:int]\"\n[input.n]\nmin = 2\n",
    );
    let page = get(&server, "/test");
    let block = |language: &str, begin: &str| {
        let block = page.body.find(&format!("data-example=\"{language}\"")).unwrap();
        let from = block + page.body[block..].find(begin).unwrap();
        let text = &page.body[from..from + page.body[from..].find("</pre>").unwrap()];
        let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
        text.replace("&#39;", "'").replace("&amp;", "&")
    };
    let call = block("cli", "fishplate call ");
    let words = shell_words::split(&call).unwrap();
    let words: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    let user = User::new();
    user.succeed(&words);
    assert_eq!(user.read("count"), b"6\n", "{call}");
    let curl = block("soap", "curl -s");
    let said = std::process::Command::new("sh").args(["-c", &curl]).output().unwrap();
    let reply = String::from_utf8(said.stdout).unwrap();
    assert!(reply.contains(">6</"), "{curl}\n{reply}");
}

#[test]
fn metrics_are_in_prometheus_format() {
    let server = Server::of_file("echo 0.5", DESCRIBED);
    let message =
        |load: &str| Version::V11.envelope("", &wrapper("call", &format!("<load>{load}</load>")));
    for load in ["1", "2", "heavy"] {
        post_as(&server, "text/xml", "", message(load).as_bytes());
    }
    let metrics = get(&server, "/metrics");
    assert!(metrics.head.contains("content-type: application/openmetrics-text"), "{metrics:#?}");
    let mut typed = Vec::new();
    for line in metrics.body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            typed.push(rest.split(' ').next().unwrap());
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
            value.parse::<f64>().unwrap_or_else(|error| panic!("{line}: {error}"));
            assert!(typed.iter().any(|family| name.starts_with(family)), "{line}");
        }
    }
    assert!(metrics.body.ends_with("# EOF\n"));
    for line in [
        "fishplate_calls_total{service=\"test\",verb=\"call\",outcome=\"ok\"} 2",
        "fishplate_calls_total{service=\"test\",verb=\"call\",outcome=\"InvalidValue\"} 1",
        "fishplate_call_duration_seconds_count{service=\"test\",verb=\"call\"} 3",
    ] {
        assert!(metrics.body.contains(line), "{line}: {}", metrics.body);
    }
}

#[test]
fn many_services_share_one_port_and_each_prints_its_line() {
    let mut server = Server::prepare();
    fs::create_dir(server.path("services")).unwrap();
    for name in ["beta", "alpha"] {
        let text = format!("command = \"echo {name} > [out file y:string]\"\n");
        fs::write(server.path(format!("services/{name}.toml")), text).unwrap();
    }
    fs::write(server.path("gamma.toml"), "command = \"echo gamma > [out file y:string]\"\n")
        .unwrap();
    server.serve_many(
        4,
        &[
            "services",
            "gamma.toml",
            "-n",
            "delta",
            "--",
            "echo",
            "delta",
            ">",
            "[out file y:string]",
        ],
    );
    assert_eq!(server.names(), ["alpha", "beta", "delta", "gamma"]);
    let user = User::new();
    for name in ["alpha", "beta", "gamma", "delta"] {
        let url = format!("http://{}/{name}", server.address());
        assert_eq!(user.succeed(&["call", &url]).trim_end(), format!("y: {name}"));
    }
    // A job belongs to its service.
    let [alpha, beta] = ["alpha", "beta"].map(|name| format!("http://{}/{name}", server.address()));
    let job = user.succeed(&["spawn", &alpha]);
    assert_eq!(user.run(&["status", &beta, job.trim()]).code, 8);

    fs::write(server.path("services/again.toml"), "name = \"alpha\"\ncommand = \"echo\"\n")
        .unwrap();
    let services = server.path("services");
    let data = server.path("other");
    let words = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data",
        data.to_str().unwrap(),
        services.to_str().unwrap(),
    ];
    let said = user.run(&words);
    assert!(said.code != 0 && said.stderr.contains("alpha"), "{said:?}");
}
