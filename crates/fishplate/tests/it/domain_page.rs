//! The page of a domain that runs: what it shows, to whom, and how it ends the domain.

use crate::curl::{Got, curl};
use crate::domains::{hosts, prepared, server, states};
use crate::login::Site;
use crate::run::{User, ended};
use crate::server::{Server, until};

/// Begins a domain on these servers; its ID.
fn begin(user: &User, servers: &[&Server], what: &str) -> (std::process::Child, String) {
    let words = ["run", "--hosts", &hosts(servers, 2), &format!("what={what}")];
    let child = user.start(&words);
    let id = listed(|| curl(&[&format!("http://{}/", servers[0].address())]));
    (child, id)
}

/// The ID of a domain, once it is on the list of services.
fn listed(list: impl Fn() -> Got) -> String {
    let mut id = String::new();
    until("the domain is on the list of services", || {
        let list = list();
        let list = list.text();
        let at = list.find("/domains/").map(|at| at + "/domains/".len());
        id = at.map(|at| list[at..at + 32].to_owned()).unwrap_or_default();
        !id.is_empty()
    });
    id
}

#[test]
fn a_domain_that_is_stuck_is_shown_and_ended_by_its_page_and_by_no_other() {
    let (one, two, user) = (server(2, &[]), server(2, &[]), User::new());
    let (child, id) = begin(&user, &[&one, &two], "circle");
    let page = |server: &Server| format!("http://{}/domains/{id}", server.address());
    let url = page(&one);
    let elsewhere = format!("<a href=\"{}\">http://{}</a>", page(&two), two.address());
    until("both ranks here are known to wait", || {
        let shown = curl(&[&url]);
        assert_eq!(shown.status, 200, "{shown:?}");
        shown.text().matches(" s in recv from ").count() == 2 && shown.text().contains(&elsewhere)
    });
    let answer = curl(&[&url]);
    let shown = answer.text();
    // Rank 1 waits for one of the other server, so this server alone knows of no deadlock.
    assert!(!shown.contains("class=\"alert\""), "{shown}");
    assert!(
        shown.contains("<td class=\"heat10\" title=\"over memory\">3 B<br><small>1</small></td>"),
        "{shown}"
    );
    let policy = answer.field("content-security-policy").unwrap();
    for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"] {
        assert!(policy.contains(part), "{policy}");
    }
    let script = url.replace(&format!("domains/{id}"), "-/domain.js");
    assert_eq!(curl(&[&script]).status, 200);
    let refused = curl(&["--request", "POST", &script]);
    assert_eq!((refused.status, refused.field("allow")), (405, Some("GET, HEAD")));
    assert_eq!(curl(&[&url.replace(&id, &"0".repeat(32))]).status, 404);
    assert_eq!(curl(&["--request", "PUT", &url]).status, 405);
    for header in ["Origin: http://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site"] {
        assert_eq!(curl(&["--request", "POST", "--header", header, &url]).status, 403, "{header}");
    }
    assert_eq!(states(&user, &one), ["running", "running"]);
    let origin = format!("Origin: http://{}", one.address());
    let answer = curl(&["--request", "POST", "--header", &origin, &url]);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(answer.text().contains("Ranks that were killed: 2."), "{answer:?}");
    assert_eq!(curl(&[&url]).status, 404);
    let said = ended(child);
    assert_ne!(said.code, 0, "{said:?}");
    for server in [&one, &two] {
        assert_eq!(states(&user, server), ["killed", "killed"]);
    }
}

#[test]
fn ranks_of_one_server_that_wait_for_each_other_are_named() {
    let (one, user) = (server(2, &[]), User::new());
    let (child, id) = begin(&user, &[&one], "circle");
    let url = format!("http://{}/domains/{id}", one.address());
    let deadlock = "<p class=\"alert\">deadlock: rank 0 waits in recv from 1 tag 7; rank 1 waits in recv from 0 tag 7</p>";
    until("it is named", || curl(&[&url]).text().contains(deadlock));
    assert_eq!(curl(&["--request", "POST", &url]).status, 200);
    assert_ne!(ended(child).code, 0);
}

#[test]
fn a_page_is_its_owners() {
    let site = Site::new(&[]);
    let path = format!("/domains/{}", "0".repeat(32));
    assert_eq!(site.ask("GET", &path, "", "").status, 401);
    let refused = site.ask("POST", &path, "", "");
    assert!(refused.status == 401 && refused.body.contains("<h1>Who are you?</h1>"), "{refused:?}");
    site.add("ada", "lovelace");
    let token = site.token(&["--user", "ada"]);
    assert_eq!(site.with_token(&path, &token), 404);
}

#[test]
fn a_domain_is_its_owners_and_ended_by_who_may_kill() {
    let (mut server, user) = (prepared(2), User::new());
    user.write(
        "policy",
        "[[allow]]\nwho = '@authenticated'\n[[deny]]\nwho = 'eve'\nmay = 'kill'\n",
    );
    let policy = user.path("policy").to_str().unwrap().to_owned();
    server.serve(&["--login", "--policy", &policy, "ring.toml"]);
    let data = server.data().to_str().unwrap().to_owned();
    let token = |name: &str| {
        let words = ["token", "create", "--user", name, "--data", &data];
        user.succeed(&words).trim().to_owned()
    };
    let [ada, bob, eve] = ["ada", "bob", "eve"].map(token);
    let root = format!("http://{}/", server.address());
    let ask = |token: &str, method: &str, path: &str| {
        let login = format!("Authorization: Bearer {token}");
        curl(&["--request", method, "--header", &login, &format!("{root}{path}")])
    };
    let hosts = hosts(&[&server], 2);
    // A domain of an owner, of which both ranks wait for each other.
    let begin = |owner: &str| {
        let words = ["run", "--hosts", &hosts, "what=circle"];
        let child = user.start_in(&[("FISHPLATE_TOKEN", owner)], &words);
        let path = format!("domains/{}", listed(|| ask(owner, "GET", "")));
        until("both ranks wait", || waits(&ask(owner, "GET", &path)));
        (child, path)
    };
    let (child, path) = begin(&ada);
    for method in ["GET", "POST"] {
        let refused = ask(&bob, method, &path);
        assert_eq!(refused.status, 404, "{method}: {refused:?}");
        assert!(!refused.text().contains("ring"), "{refused:?}");
    }
    assert!(!ask(&bob, "GET", "").text().contains("/domains/"));
    assert!(waits(&ask(&ada, "GET", &path)));
    assert_eq!(ask(&ada, "POST", &path).status, 200);
    assert_ne!(ended(child).code, 0);
    let (mut child, path) = begin(&eve);
    let refused = ask(&eve, "POST", &path);
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(refused.text().contains("<h1>Not allowed</h1>"), "{refused:?}");
    assert!(waits(&ask(&eve, "GET", &path)));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Whether a page shows two ranks that wait.
fn waits(page: &Got) -> bool {
    page.status == 200 && page.text().matches(" s in recv from ").count() == 2
}

#[test]
fn a_rank_that_ended_before_it_joined_is_shown_so() {
    let program = "[ $FISHPLATE_RANK = 0 ] || until [ -e DIR/stop ]; do sleep 0.05; done";
    let description = "name = 'test'\ncommand = './program'\n[ranks]\nmax = 2\n";
    let (server, user) = (Server::of_file(program, description), User::new());
    let mut child = user.start(&["run", "--hosts", &hosts(&[&server], 2)]);
    let root = format!("http://{}/", server.address());
    let id = listed(|| curl(&[&root]));
    let page = || curl(&[&format!("{root}domains/{id}")]).text().to_owned();
    until("one has ended, and one has not", || {
        let shown = page();
        let of = |state: &str| shown.matches(&format!("<td>{state}</td>")).count();
        (of("has ended"), of("starts")) == (1, 1) && !shown.contains("data-ended")
    });
    // Nobody ends the domain.
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::write(server.path("stop"), "").unwrap();
    until("all have ended", || page().contains("data-ended"));
}
