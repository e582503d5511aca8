//! What a browser does: it fills in a form, sends it, is led to the job, and follows that.

use crate::bed::{Answer, Connection, Server, Setup, until};

const CUT: &str = "name = 'cut'
title = 'Cut'
documentation = 'Cuts a text.'
command = './cut [in file text:raw] [in val n:int] [in val loud:bool] [in val name:string] [out file head:raw]'
[input.n]
default = 3
min = 1
max = 1000
[input.loud]
default = 'true'
[input.name]
default = 'x y'
";

const SCRIPT: &str = "head -c \"$2\" \"$1\" > \"$5\"; printf %s \"|$3|$4\" >> \"$5\"";

/// Fields, each with the name of its file if it is one.
fn form(fields: &[(&str, Option<&str>, &str)]) -> String {
    let mut form = String::new();
    for (name, file, content) in fields {
        let file = file.map_or_else(String::new, |file| {
            format!("; filename=\"{file}\"\r\nContent-Type: application/octet-stream")
        });
        form.push_str(&format!(
            "--B\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n{content}\r\n"
        ));
    }
    form + "--B--\r\n"
}

const BROWSER: &str =
    "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\nSec-Fetch-Site: same-origin\r\n";

fn submit(server: &Server, process: &str, fields: &[(&str, Option<&str>, &str)]) -> Answer {
    let path = format!("/ogc/processes/{process}/execution");
    let head = format!("{BROWSER}Content-Type: multipart/form-data; boundary=B\r\n");
    server.exchange("POST", &path, &head, form(fields).as_bytes())
}

fn page(server: &Server, path: &str) -> Answer {
    server.exchange("GET", path, BROWSER, b"")
}

/// The path that a browser is led to.
fn led(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{answer:?}");
    answer.field("location").unwrap().to_owned()
}

/// Where the job of a form has ended.
fn ended(server: &Server, answer: &Answer, state: &str) -> String {
    let job = led(answer);
    let shown = format!("<span class=\"pill {state}\">");
    until(&format!("the job is {state}"), || page(server, &job).text().contains(&shown));
    job
}

#[test]
fn a_form_becomes_a_job_whose_page_leads_to_its_results() {
    let server = Setup::new().with("cut", CUT, SCRIPT).serve();
    let shown = page(&server, "/cut");
    for part in [
        "action=\"/ogc/processes/cut/execution\"",
        "enctype=\"multipart/form-data\"",
        "type=\"number\" id=\"call.n\" name=\"n\"",
        "min=\"1\" max=\"1000\" value=\"3\"",
        "value=\"x y\"",
    ] {
        assert!(shown.text().contains(part), "no {part}: {}", shown.text());
    }
    let fields = [
        ("text", Some("a.txt"), "abc\r\ndef"),
        ("text", None, ""),
        ("text:url", None, ""),
        ("n", None, "5"),
        ("loud:box", None, "1"),
        ("name", None, "<b>"),
    ];
    let answer = submit(&server, "cut", &fields);
    let job = ended(&server, &answer, "done");
    assert!(job.starts_with("/ogc/jobs/"), "{job}");
    assert_eq!(server.get(&format!("{job}/results/head")).text(), "abc\r\n|false|<b>");
    let shown = page(&server, &job);
    let policy = shown.field("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'; script-src 'self'") && !policy.contains("unsafe"));
    for part in [
        &*format!("href=\"{job}/results/head?item=0\""),
        "<code>&lt;b&gt;</code>",
        "the file a.txt",
        &format!("/cut?from={}", job.rsplit('/').next().unwrap()),
        &format!("action=\"{job}/remove\""),
    ] {
        assert!(shown.text().contains(part), "no {part}: {}", shown.text());
    }
    assert!(!shown.text().contains("<b>") && !shown.text().contains("job.js"), "{}", shown.text());
    // Again, with what it was given.
    let again = page(&server, &format!("/cut?from={}", job.rsplit('/').next().unwrap()));
    for part in ["value=\"5\"", "value=\"&lt;b&gt;\"", "It was a file (a.txt)", "value=\"true\">"] {
        assert!(again.text().contains(part), "no {part}: {}", again.text());
    }
    let removed = server.exchange("POST", &format!("{job}/remove"), BROWSER, b"");
    assert_eq!(led(&removed), "/ogc/jobs");
    let gone = page(&server, &job);
    assert_eq!(gone.status, 404);
    assert!(gone.text().contains("<h1>No such job</h1>"), "{}", gone.text());
}

#[test]
fn what_is_wrong_stands_at_its_field_and_the_rest_is_kept() {
    let server = Setup::new().with("cut", CUT, SCRIPT).serve();
    let wrong = submit(
        &server,
        "cut",
        &[("text", None, "<abc>"), ("n", None, "1001"), ("name", None, "\"'>")],
    );
    assert_eq!(
        (wrong.status, wrong.field("content-type")),
        (400, Some("text/html; charset=utf-8"))
    );
    for part in [
        "id=\"call.n-error\">parameter n: 1001 is above the largest value allowed, 1000</p>",
        "aria-invalid=\"true\"",
        "value=\"1001\"",
        "&lt;abc&gt;</textarea>",
        "value=\"&quot;&#39;&gt;\"",
        "<a href=\"#call.n\">",
    ] {
        assert!(wrong.text().contains(part), "no {part}: {}", wrong.text());
    }
    assert!(server.names("jobs").is_empty());
    for (fields, at) in [
        (&[("n", None, "1")][..], "call.text-error"),
        (&[("text", None, "a"), ("text:url", None, "http://h/")], "call.text-error"),
        (&[("text:url", None, "http://127.0.0.1:1/a")], "<b>Nothing was run.</b>"),
        (&[("text", None, "a"), ("n", Some("n.txt"), "1")], "call.n-error"),
        (&[("text", None, "a"), ("m", None, "1")], "has no parameter m"),
        (&[("text", None, "a"), ("name", None, "-x")], "call.name-error"),
    ] {
        let wrong = submit(&server, "cut", fields);
        if wrong.status != 303 {
            assert!((400..500).contains(&wrong.status), "{wrong:?}");
            assert!(wrong.text().contains(at), "{at}: {}", wrong.text());
        } else {
            // What can't be fetched shows when it is.
            ended(&server, &wrong, "failed");
        }
    }
}

#[test]
fn a_form_of_a_program_is_answered_as_json_is() {
    let server = Setup::new().with("cut", CUT, SCRIPT).serve();
    let path = "/ogc/processes/cut/execution";
    let post = |content_type: &str, body: &str| {
        let fields = format!("Content-Type: {content_type}\r\n");
        server.exchange("POST", path, &fields, body.as_bytes())
    };
    let parts = form(&[("text", Some("a"), "abcdef"), ("n", None, "2")]);
    let answer = post("multipart/form-data; boundary=B", &parts);
    assert_eq!((answer.status, answer.text()), (200, "ab|true|x y"), "{answer:?}");
    let answer = post("application/x-www-form-urlencoded", "text=a%0D%0Ab&n=1000&name=");
    assert_eq!((answer.status, answer.text()), (200, "a\nb|true|"), "{answer:?}");
    let wrong = post("application/x-www-form-urlencoded", "text=a&n=x");
    assert_eq!(
        (wrong.status, wrong.field("content-type")),
        (400, Some("application/problem+json"))
    );
    let json = post("application/x-www-form-urlencoded", "{\"inputs\": {}}");
    assert!(json.status == 415 && json.text().contains("application/json"), "{json:?}");
}

#[test]
fn arrays_are_written_or_are_files() {
    let server = Setup::new().with_matrix().serve();
    let npy =
        b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }";
    let mut npy = npy.to_vec();
    npy.resize(127, b' ');
    npy.push(b'\n');
    npy.extend([1.5f32, 0.0].iter().flat_map(|number| number.to_le_bytes()));
    let run = |fields: Vec<u8>| {
        let head = "Content-Type: multipart/form-data; boundary=B\r\n";
        server.exchange("POST", "/ogc/processes/matrix:echo/execution", head, &fields)
    };
    for (file, content, rows) in [
        (None, "[[1, 2], [3, 4]]", "[[1.0,2.0],[3.0,4.0]]"),
        (None, "1 2\r\n3 4.5", "[[1.0,2.0],[3.0,4.5]]"),
        (None, "1, 2\n3, 4", "[[1.0,2.0],[3.0,4.0]]"),
        (Some("m.csv"), "1,2\n3,4\n", "[[1.0,2.0],[3.0,4.0]]"),
        (Some("m.txt"), "# x\n1 2\n", "[[1.0,2.0]]"),
    ] {
        let answer = run(form(&[("matrix", file, content)]).into_bytes());
        assert_eq!(
            (answer.status, &*answer.text().replace(' ', "")),
            (200, rows),
            "{content}: {answer:?}"
        );
    }
    let head = "--B\r\nContent-Disposition: form-data; name=\"matrix\"; filename=\"m.npy\"\r\n\r\n";
    let answer = run([head.as_bytes(), &npy, b"\r\n--B--"].concat());
    assert_eq!(
        (answer.status, &*answer.text().replace(' ', "")),
        (200, "[[1.5,0.0]]"),
        "{answer:?}"
    );
    for (file, content) in
        [(None, "1 x"), (None, "[1, 2]"), (Some("m.npy"), "no"), (Some("m.bin"), "123")]
    {
        let wrong = run(form(&[("matrix", file, content)]).into_bytes());
        assert_eq!(wrong.status, 400, "{content}: {wrong:?}");
        assert!(wrong.text().contains("\"parameter\":\"matrix\""), "{wrong:?}");
    }
}

#[test]
fn a_form_has_the_limits_of_other_messages() {
    let mut setup = Setup::new().with("cut", CUT, SCRIPT);
    setup.limits.set("parts=3").unwrap();
    setup.limits.set("json_size=2kB").unwrap();
    setup.limits.set("inputs_kept=30B").unwrap();
    let server = setup.serve();
    let names = ["n", "name", "loud", "text"];
    let many: Vec<_> = names.iter().map(|name| (*name, None, "1")).collect();
    let refused = submit(&server, "cut", &many);
    assert!(refused.status == 413 && refused.text().contains("limit parts"), "{refused:?}");
    let urlencoded = "Content-Type: application/x-www-form-urlencoded\r\n";
    let path = "/ogc/processes/cut/execution";
    let refused = server.exchange("POST", path, urlencoded, b"n=1&n=2&n=3&n=4");
    assert!(refused.status == 413 && refused.text().contains("\"name\":\"parts\""), "{refused:?}");
    let long = "x".repeat(3000);
    let refused = submit(&server, "cut", &[("text", None, &long)]);
    assert!(refused.status == 413 && refused.text().contains("limit json_size"), "{refused:?}");
    let refused = server.exchange("POST", path, urlencoded, format!("text={long}").as_bytes());
    assert!(
        refused.status == 413 && refused.text().contains("\"name\":\"json_size\""),
        "{refused:?}"
    );
    // A file may be larger; and what is too long is not kept.
    let answer =
        submit(&server, "cut", &[("text", Some("f"), &long), ("name", None, "0123456789")]);
    let job = ended(&server, &answer, "done");
    let shown = page(&server, &job);
    assert!(
        shown.text().contains("the file f") && !shown.text().contains("<code>0123456789</code>"),
        "{}",
        shown.text()
    );
}

#[test]
fn pages_of_other_sites_send_no_forms() {
    let server = Setup::new().with("cut", CUT, SCRIPT).serve();
    let body = form(&[("text", None, "a")]);
    let send = |fields: &str| {
        let head = format!(
            "Accept: text/html\r\nContent-Type: multipart/form-data; boundary=B\r\n{fields}"
        );
        server.exchange("POST", "/ogc/processes/cut/execution", &head, body.as_bytes()).status
    };
    let own = format!("Origin: http://{}\r\n", server.address);
    for foreign in [
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
    ] {
        assert_eq!(send(foreign), 403, "{foreign}");
    }
    assert!(server.names("jobs").is_empty());
    for own in ["", "Sec-Fetch-Site: same-origin\r\n", "Sec-Fetch-Site: none\r\n", &own] {
        assert_eq!(send(own), 303, "{own}");
    }
}

/// Events until one of this name, as (name, data).
fn events(connection: &mut Connection, last: &str) -> Vec<(String, String)> {
    let (mut found, mut text) = (Vec::new(), String::new());
    while found.last().is_none_or(|(name, _): &(String, String)| name != last) {
        text.push_str(&connection.chunk());
        while let Some((event, rest)) =
            text.split_once("\n\n").map(|(a, b)| (a.to_owned(), b.to_owned()))
        {
            text = rest;
            let field = |name: &str| {
                let lines =
                    event.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
                lines
                    .map(|value| value.strip_prefix(' ').unwrap_or(value))
                    .collect::<Vec<_>>()
                    .join("\n")
            };
            if !field("event").is_empty() {
                found.push((field("event"), field("data")));
            }
        }
    }
    found
}

fn holding(limits: &[&str]) -> (Setup, std::path::PathBuf) {
    let mut setup = Setup::new();
    let go = setup.directory.path().join("go");
    // Nobody lets the last ones go: they end when the test's directory does.
    let wait = |number: u8| {
        let (go, directory) = (go.display(), setup.directory.path().display());
        format!("while [ -d {directory} ] && [ ! -e {go}{number} ]; do sleep 0.02; done")
    };
    let script = format!("echo first; echo why >&2; {}; echo 50%; {}; echo last", wait(1), wait(2));
    let description = "name = 'hold'\ncommand = './hold [out file none:raw]'\n[progress]\npattern = '([0-9]+)%'\n[output.none]\noptional = true\n";
    setup = setup.with("hold", description, &script);
    limits.iter().for_each(|limit| setup.limits.set(limit).unwrap());
    (setup, go)
}

#[test]
fn a_job_is_followed_as_it_goes_on_by_all_who_look() {
    let (setup, go) = holding(&["job_viewers=2"]);
    let server = setup.serve();
    let step = |number: u8| std::fs::write(format!("{}{number}", go.display()), "").unwrap();
    let job = led(&submit(&server, "hold", &[]));
    let shown = page(&server, &job);
    for part in [
        &*format!("data-events=\"{job}/events\""),
        "/-/job.js?v=",
        &format!("action=\"{job}/kill\""),
        "http-equiv=\"refresh\"",
    ] {
        assert!(shown.text().contains(part), "no {part}: {}", shown.text());
    }
    let follow = || {
        let mut connection = server.connect();
        connection.send(&server.request(
            "GET",
            &format!("{job}/events"),
            "Accept: text/event-stream\r\n",
            b"",
        ));
        let head = connection.head();
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/event-stream"), "{head}");
        connection
    };
    let mut one = follow();
    let text = |events: &[(String, String)], stream: &str| -> String {
        let logs = events.iter().filter(|(name, _)| name == "log");
        let logs = logs.map(|(_, data)| serde_json::from_str::<serde_json::Value>(data).unwrap());
        logs.filter(|log| log["stream"] == stream)
            .map(|log| log["text"].as_str().unwrap().to_owned())
            .collect()
    };
    let mut seen = Vec::new();
    while !(text(&seen, "stdout") == "first\n" && text(&seen, "stderr") == "why\n") {
        seen.extend(events(&mut one, "log"));
    }
    step(1);
    while !seen.iter().any(|(name, data)| name == "state" && data.contains("value=\"50.0\"")) {
        seen.extend(events(&mut one, "state"));
    }
    // Whoever comes later is told all of it; and one is too many.
    let mut two = follow();
    let mut late = Vec::new();
    while text(&late, "stdout") != "first\n50%\n" {
        late.extend(events(&mut two, "log"));
    }
    let refused = server.get(&format!("{job}/events"));
    assert_eq!((refused.status, refused.field("retry-after")), (503, Some("10")), "{refused:?}");
    assert!(refused.text().contains("\"name\":\"job_viewers\""), "{refused:?}");
    step(2);
    for (connection, mut seen) in [(&mut one, seen), (&mut two, late)] {
        seen.extend(events(connection, "end"));
        assert_eq!(text(&seen, "stdout"), "first\n50%\nlast\n");
        let states: Vec<_> = seen.iter().filter(|(name, _)| name == "state").collect();
        assert!(states.last().unwrap().1.contains("pill done"), "{states:?}");
    }
    // One that has ended tells so at once, and there is room again.
    until("there is room", || server.get(&format!("{job}/events")).status == 200);
    let told = server.get(&format!("{job}/events"));
    assert!(told.text().ends_with("event: end\ndata:\n\n"), "{told:?}");
}

#[test]
fn a_job_is_killed_from_its_page() {
    let (setup, _) = holding(&[]);
    let server = setup.serve();
    let job = led(&submit(&server, "hold", &[]));
    let foreign = format!("{BROWSER}Origin: http://evil.example\r\n");
    assert_eq!(server.exchange("POST", &format!("{job}/kill"), &foreign, b"").status, 403);
    assert_eq!(server.get(&format!("{job}/kill")).status, 405);
    let killed = server.exchange("POST", &format!("{job}/kill"), BROWSER, b"");
    assert_eq!(led(&killed), job);
    ended(&server, &killed, "killed");
}

#[test]
fn a_fault_is_told_on_a_page_with_the_status_that_programs_get() {
    let (setup, _) = holding(&["max_running=1", "max_queued=1"]);
    let server = setup.serve();
    let run = || submit(&server, "hold", &[]);
    let job = led(&run());
    until("it runs", || page(&server, &job).text().contains("pill running"));
    let queued = led(&run());
    // Nothing more is taken now: as a program is told, but for how.
    let path = "/ogc/processes/hold/execution";
    let json =
        "Content-Type: application/json\r\nAccept: application/json\r\nPrefer: respond-async\r\n";
    let (told, shown) = (server.exchange("POST", path, json, b"{}"), run());
    assert_eq!((told.status, told.field("retry-after")), (503, Some("5")), "{told:?}");
    assert_eq!((shown.status, shown.field("retry-after")), (503, Some("5")), "{shown:?}");
    assert!(shown.text().contains("role=\"alert\""), "{shown:?}");
    let nobody = "0".repeat(32);
    for (method, path) in [
        ("GET", "/ogc/nothing".to_owned()),
        ("GET", format!("/ogc/jobs/{nobody}")),
        ("GET", format!("{queued}/results/none")),
        ("GET", format!("{job}/kill")),
        ("DELETE", "/ogc/jobs".to_owned()),
    ] {
        let told = server.exchange(method, &path, "Accept: application/json\r\n", b"");
        let shown = server.exchange(method, &path, BROWSER, b"");
        assert!(told.status >= 400, "{path}: {told:?}");
        for field in ["retry-after", "allow"] {
            assert_eq!(shown.field(field), told.field(field), "{path}");
        }
        assert_eq!(shown.status, told.status, "{path}");
        assert_eq!(told.field("content-type"), Some("application/json"), "{path}");
        assert_eq!(shown.field("content-type"), Some("text/html; charset=utf-8"), "{path}");
        assert!(shown.text().contains("All services"), "{path}: {shown:?}");
    }
}

#[test]
fn a_directory_is_chosen_as_an_archive_or_by_a_script() {
    let list = "name = 'list'\ncommand = './list [in file folder:dir] > [out file names:raw]'";
    let server = Setup::new().with("list", list, "cd \"$1\" && find . -type f | sort").serve();
    let shown = page(&server, "/list");
    for part in [
        "<input type=\"file\" id=\"call.folder\" name=\"folder\">",
        // Without a script it is not there, and it is never sent.
        "<p class=\"or\" hidden><label for=\"call.folder-directory\">",
        "<input type=\"file\" id=\"call.folder-directory\" webkitdirectory>",
        "/-/directory.js?v=",
        "data-upload",
    ] {
        assert!(shown.text().contains(part), "no {part}: {}", shown.text());
    }
    // What leaves the directory is refused, whoever made the archive.
    let mut header = [0_u8; 512];
    header[..9].copy_from_slice(b"../a.html");
    header[100..108].copy_from_slice(b"0000644\0");
    header[124..136].copy_from_slice(b"00000000000\0");
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let archive = String::from_utf8([&header[..], &[0; 1024]].concat()).unwrap();
    let refused = submit(&server, "list", &[("folder", Some("a.tar"), &archive)]);
    let page = match refused.status {
        303 => {
            let job = ended(&server, &refused, "failed");
            page(&server, &job)
        }
        _ => refused,
    };
    assert!(page.text().contains("../a.html"), "{}", page.text());
}
