//! OGC API - Processes: processes, executions in every form, jobs and their results, faults, callbacks.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;

use fishplate_contract::FaultCode;
use fishplate_server::status::{Protocol, status};
use serde_json::{Value, json};

use crate::bed::{Answer, Server, Setup, envelope, until};

const PIECES: &str = "name = 'pieces'
title = 'Pieces'
documentation = 'Cuts a text into pieces.'
command = './pieces [in file text:raw] [in val n:int] [out file head:raw] [out file size:int]'
[input.text]
help = 'A text'
media_type = 'text/plain'
[input.n]
help = 'How many bytes'
default = 3
unit = 'B'
min = 1
max = 1000
[output.head]
media_type = 'text/plain'
";

const CUT: &str =
    "test \"$2\" = 13 && exit 7; head -c \"$2\" \"$1\" > \"$3\"; wc -c < \"$3\" > \"$4\"";

/// It writes a line, and waits until there is a file of this name in the directory of its service.
const HOLD: &str = "name = 'hold'\ncommand = './hold [in val name:string] > [out file said:raw]'";

fn pieces() -> Setup {
    Setup::new().with("pieces", PIECES, CUT)
}

fn json_of(answer: &Answer) -> Value {
    serde_json::from_slice(&answer.body).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

fn get(server: &Server, path: &str) -> Value {
    let answer = server.get(path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    json_of(&answer)
}

fn run(server: &Server, process: &str, prefer: &str, request: &Value) -> Answer {
    let path = format!("/ogc/processes/{process}/execution");
    let fields = format!("Content-Type: application/json\r\nPrefer: {prefer}\r\n");
    server.exchange("POST", &path, &fields, request.to_string().as_bytes())
}

fn spawned(server: &Server, process: &str, request: &Value) -> String {
    let answer = run(server, process, "respond-async", request);
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.field("preference-applied"), Some("respond-async"));
    let told = json_of(&answer);
    let path = format!("/ogc/jobs/{}", told["jobID"].as_str().unwrap());
    assert_eq!(answer.field("location"), Some(&*format!("http://{}{path}", server.address)));
    assert_eq!((&told["status"], &told["type"]), (&json!("accepted"), &json!("process")));
    path
}

fn wait_for(server: &Server, job: &str, status: &str) -> Value {
    let mut told = Value::Null;
    until(&format!("the job is {status}"), || {
        told = get(server, job);
        told["status"] == status
    });
    told
}

fn href(of: &Value, rel: &str) -> String {
    let links = of["links"].as_array().unwrap();
    let found = links.iter().find(|link| link["rel"].as_str().unwrap().ends_with(rel));
    found.unwrap_or_else(|| panic!("{rel}: {of}"))["href"].as_str().unwrap().to_owned()
}

/// The path of an address of this server.
fn path(server: &Server, url: &str) -> String {
    url.strip_prefix(&format!("http://{}", server.address))
        .unwrap_or_else(|| panic!("{url}"))
        .to_owned()
}

#[test]
fn everything_is_found_from_the_landing_page() {
    let server = pieces().with_matrix().serve();
    let landing = get(&server, "/ogc");
    let follow = |rel: &str| get(&server, &path(&server, &href(&landing, rel)));
    assert!(follow("conformance")["conformsTo"].as_array().unwrap().len() > 5);
    assert_eq!(follow("service-desc")["openapi"], "3.0.3");
    assert_eq!(follow("job-list")["jobs"], json!([]));
    let processes = follow("processes");
    let ids: Vec<&str> = processes["processes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["id"].as_str().unwrap())
        .collect();
    assert!(ids.contains(&"pieces") && ids.contains(&"matrix:echo"), "{ids:?}");
    assert!(!ids.iter().any(|id| id.starts_with("session")), "{ids:?}");
    // Page by page they are the same.
    let (mut paged, mut next) = (Vec::new(), Some("/ogc/processes?limit=1".to_owned()));
    while let Some(at) = next {
        let page = get(&server, &at);
        paged.extend(page["processes"].as_array().unwrap().iter().map(|it| it["id"].clone()));
        let links = page["links"].as_array().unwrap();
        let link = links.iter().find(|link| link["rel"] == "next");
        next = link.map(|link| path(&server, link["href"].as_str().unwrap()));
    }
    assert_eq!(json!(paged), json!(ids));
    let description = get(&server, "/ogc/processes/pieces");
    assert_eq!(
        description["inputs"]["n"]["schema"],
        json!({ "type": "integer", "format": "int32", "minimum": 1, "maximum": 1000, "default": 3 })
    );
    assert_eq!(description["inputs"]["n"]["minOccurs"], 0);
    assert_eq!(description["inputs"]["n"]["metadata"][0]["title"], "B");
    assert_eq!(description["inputs"]["text"]["schema"]["contentMediaType"], "text/plain");
    assert_eq!(
        description["jobControlOptions"],
        json!(["sync-execute", "async-execute", "dismiss"])
    );
    let page = server.exchange("GET", "/ogc/processes/pieces", "Accept: text/html\r\n", b"");
    assert_eq!(
        (page.status, page.field("location")),
        (303, Some(&*format!("http://{}/pieces", server.address)))
    );
}

#[test]
fn each_form_of_answer_has_what_was_asked_for() {
    let server = pieces().serve();
    let text = json!({ "value": "abcdefgh", "encoding": "utf-8" });
    let inputs = json!({ "text": text, "n": 4 });
    let document = run(&server, "pieces", "", &json!({ "inputs": inputs }));
    assert_eq!(document.field("content-type"), Some("application/json"));
    assert_eq!(
        json_of(&document),
        json!({ "head": { "value": "YWJjZA==", "encoding": "base64", "mediaType": "text/plain" }, "size": 4 })
    );
    let only = |request: Value| {
        let mut request = request;
        request["inputs"] = inputs.clone();
        run(&server, "pieces", "", &request)
    };
    let head = only(json!({ "outputs": { "head": {} } }));
    assert_eq!((head.text(), head.field("content-type")), ("abcd", Some("text/plain")));
    assert_eq!(only(json!({ "outputs": { "size": {} } })).text().trim(), "4");
    // Who takes JSON alone, gets JSON.
    let execution = "/ogc/processes/pieces/execution";
    let request = json!({ "inputs": inputs, "outputs": { "head": {} } }).to_string();
    for (accepted, is_json) in
        [("application/json", true), ("text/plain, application/json", false), ("*/*", false)]
    {
        let fields = format!("Content-Type: application/json\r\nAccept: {accepted}\r\n");
        let told = server.exchange("POST", execution, &fields, request.as_bytes());
        assert_eq!(told.text().starts_with("{\"head\":{\"value\":"), is_json, "{told:?}");
    }
    let one = only(json!({ "outputs": { "size": {} }, "response": "document" }));
    assert_eq!(json_of(&one), json!({ "size": 4 }));
    let parts = only(json!({ "response": "raw" }));
    assert!(parts.field("content-type").unwrap().starts_with("multipart/related; boundary="));
    assert!(
        parts.text().contains("Content-ID: <head>\r\nContent-Type: text/plain\r\n\r\nabcd\r\n--")
    );
    // By reference: in the header, or in the document.
    let by_reference = json!({ "transmissionMode": "reference" });
    let linked = only(json!({ "outputs": { "head": by_reference }, "response": "raw" }));
    assert_eq!(linked.status, 204);
    let link = linked.field("link").unwrap();
    let url = link.strip_prefix('<').unwrap().split('>').next().unwrap();
    assert_eq!(server.get(&path(&server, url)).text(), "abcd");
    let both = json!({ "outputs": { "head": by_reference, "size": by_reference }, "response": "document" });
    let both = json_of(&only(both));
    for (output, content) in [("head", "abcd"), ("size", "4")] {
        let found = server.get(&path(&server, both[output]["href"].as_str().unwrap()));
        assert_eq!(found.text().trim(), content, "{both}");
    }
    let minimal = run(&server, "pieces", "return=minimal", &json!({ "inputs": inputs }));
    assert!(json_of(&minimal)["head"]["href"].is_string(), "{minimal:?}");
}

#[test]
fn an_input_may_be_at_an_address_and_large() {
    let server = pieces().serve();
    let content = "x".repeat(300_000);
    let put = server.exchange("PUT", "/data/text", "", content.as_bytes());
    let url = put.field("location").unwrap_or_else(|| panic!("{put:?}")).to_owned();
    let request =
        json!({ "inputs": { "text": { "href": url }, "n": 1000 }, "outputs": { "size": {} } });
    assert_eq!(run(&server, "pieces", "", &request).text().trim(), "1000");
    // Beyond what stays in memory, but in the message.
    let request = json!({ "inputs": { "text": { "value": content, "encoding": "utf-8" } }, "outputs": { "head": {} } });
    assert_eq!(run(&server, "pieces", "", &request).text(), "xxx");
}

#[test]
fn arrays_are_lists_both_ways_whatever_their_size() {
    let server = Setup::new().with_matrix().serve();
    let rows = json!([[0.5, "NaN"], [-1e30, 3.0]]);
    let echoed = run(&server, "matrix:echo", "", &json!({ "inputs": { "matrix": rows } }));
    assert_eq!(json_of(&echoed), rows, "{echoed:?}");
    let many = run(&server, "matrix:getMatrix", "", &json!({ "inputs": { "n": 300 } }));
    let many = json_of(&many);
    let many = many.as_array().unwrap();
    assert!(many.len() == 300 && many.iter().all(|row| row.as_array().unwrap().len() == 300));
    let ragged = run(&server, "matrix:echo", "", &json!({ "inputs": { "matrix": [[1], [1, 2]] } }));
    assert_eq!((ragged.status, &json_of(&ragged)["parameter"]), (400, &json!("matrix")));
}

#[test]
fn a_job_is_followed_and_its_results_are_as_they_were_asked_for() {
    let server = pieces().serve();
    let text = json!({ "value": "abcdefgh", "encoding": "utf-8" });
    let request =
        json!({ "inputs": { "text": text }, "outputs": { "head": {} }, "response": "document" });
    let job = spawned(&server, "pieces", &request);
    let status = wait_for(&server, &job, "successful");
    assert_eq!((&status["processID"], &status["progress"]), (&json!("pieces"), &json!(100)));
    assert!(status["created"].is_string() && status["finished"].is_string(), "{status}");
    let results = get(&server, &path(&server, &href(&status, "results")));
    assert_eq!(results["head"]["value"], "YWJj", "{results}");
    assert_eq!(results.get("size"), None, "it was not asked for");
    assert_eq!(server.get(&format!("{job}/results/head")).text(), "abc");
    assert_eq!(server.get(&format!("{job}/results/size")).text().trim(), "3");
    let none = server.get(&format!("{job}/results/none"));
    assert_eq!((none.status, &json_of(&none)["status"]), (404, &json!(404)));
    let jobs = get(&server, "/ogc/jobs?status=successful&processID=pieces&type=process");
    assert_eq!(jobs["jobs"][0]["jobID"], status["jobID"]);
    assert_eq!(get(&server, "/ogc/jobs?status=failed")["jobs"], json!([]));
    let dismissed = server.exchange("DELETE", &job, "", b"");
    assert_eq!((dismissed.status, &json_of(&dismissed)["status"]), (200, &json!("dismissed")));
    let gone = server.get(&job);
    assert_eq!(gone.status, 404);
    assert!(json_of(&gone)["type"].as_str().unwrap().ends_with("/no-such-job"), "{gone:?}");
}

#[test]
fn jobs_are_listed_newest_first_page_by_page() {
    let server = pieces().with("other", &PIECES.replace("pieces", "other"), CUT).serve();
    let request = json!({ "inputs": { "text": "YQ==" } });
    let made: Vec<String> = ["pieces", "other", "pieces", "other", "pieces"]
        .iter()
        .map(|process| spawned(&server, process, &request))
        .collect();
    let (mut found, mut next) = (Vec::new(), Some("/ogc/jobs?limit=2&type=process".to_owned()));
    while let Some(at) = next {
        let page = get(&server, &at);
        let jobs = page["jobs"].as_array().unwrap();
        assert!(jobs.len() <= 2);
        found
            .extend(jobs.iter().map(|job| format!("/ogc/jobs/{}", job["jobID"].as_str().unwrap())));
        let links = page["links"].as_array().unwrap();
        let link = links.iter().find(|link| link["rel"] == "next");
        next = link.map(|link| path(&server, link["href"].as_str().unwrap()));
    }
    found.reverse();
    assert_eq!(found, made);
}

#[test]
fn a_list_has_what_it_is_asked_for_and_says_where_it_goes_on() {
    let server = pieces().serve();
    let request = json!({ "inputs": { "text": "YQ==" } });
    for _ in 0..3 {
        let job = spawned(&server, "pieces", &request);
        wait_for(&server, &job, "successful");
    }
    let count =
        |query: &str| get(&server, &format!("/ogc/jobs?{query}"))["jobs"].as_array().unwrap().len();
    for (query, found) in [
        ("limit=5000", 3),
        ("status=failed,successful", 3),
        ("status=failed,dismissed", 0),
        ("processID=pieces:other", 0),
        ("processID=pieces&minDuration=0", 3),
        ("minDuration=3600", 0),
        ("maxDuration=3600&limit=2", 2),
        ("datetime=../2000-01-01T00:00:00Z", 0),
        ("datetime=2000-01-01T00:00:00Z/..", 3),
    ] {
        assert_eq!(count(query), found, "{query}");
    }
    let second = get(&server, "/ogc/jobs?maxDuration=3600&limit=2");
    let rest = get(&server, &path(&server, &href(&second, "next")));
    assert_eq!(rest["jobs"].as_array().unwrap().len(), 1, "{rest}");
    assert!(!rest["links"].to_string().contains("\"next\""), "{rest}");
}

#[test]
fn a_job_runs_in_the_session_that_its_request_names() {
    let server = pieces().serve();
    let open = "<e:Envelope xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\"><e:Body>\
                <open xmlns=\"urn:fishplate:session:1\"/></e:Body></e:Envelope>";
    let fields = "Content-Type: text/xml\r\nSOAPAction: \"\"\r\n";
    let opened = server.exchange("POST", "/session", fields, open.as_bytes());
    let session = opened.element("session").unwrap_or_else(|| panic!("{opened:?}"));
    let run = |session: &str, text: Value| {
        let path = format!("/ogc/processes/pieces/execution?session={session}");
        let request = json!({ "inputs": { "text": text }, "response": "document" });
        let fields = "Content-Type: application/json\r\n";
        server.exchange("POST", &path, fields, request.to_string().as_bytes())
    };
    // Its outputs stay there, and are an input of the next one.
    let first = json_of(&run(session, json!("YWJjZA==")));
    assert!(first["head"]["href"].as_str().unwrap().contains("/session/"), "{first}");
    let second = json_of(&run(session, json!({ "href": "session:head" })));
    assert_eq!(server.get(&path(&server, second["head"]["href"].as_str().unwrap())).text(), "abc");
    let refused = run("none", json!("YWJjZA=="));
    assert_eq!((refused.status, &json_of(&refused)["parameter"]), (400, &json!("session")));
}

#[test]
fn a_job_that_runs_shows_its_log_and_can_be_dismissed() {
    let setup = Setup::new();
    let gate = setup.directory.path().join("gate");
    let script = format!(
        "echo started >&2; until test -e '{}'; do sleep 0.05; done; echo \"$1\"",
        gate.display()
    );
    let server = setup.with("hold", HOLD, &script).serve();
    let request = json!({ "inputs": { "name": "ada" } });
    let job = spawned(&server, "hold", &request);
    until("its program has written", || {
        get(&server, &format!("{job}/log?stream=stderr"))["text"] == "started\n"
    });
    let log = get(&server, &format!("{job}/log?stream=stderr&offset=3"));
    assert_eq!((&log["text"], &log["end"]), (&json!("rted\n"), &json!(false)));
    assert!(href(&log, "next").ends_with("stream=stderr&offset=8"), "{log}");
    let plain =
        server.exchange("GET", &format!("{job}/log?stream=stderr"), "Accept: text/plain\r\n", b"");
    assert_eq!(plain.text(), "started\n");
    let early = server.get(&format!("{job}/results"));
    assert_eq!(early.status, 404);
    assert!(json_of(&early)["type"].as_str().unwrap().ends_with("/result-not-ready"), "{early:?}");
    assert_eq!(get(&server, &job)["status"], "running");
    let dismissed = server.exchange("DELETE", &job, "", b"");
    assert_eq!((dismissed.status, &json_of(&dismissed)["status"]), (200, &json!("dismissed")));
    wait_for(&server, &job, "dismissed");
    assert_eq!(server.get(&format!("{job}/results")).status, 410);
}

#[test]
fn a_fault_has_the_status_of_its_table_as_a_problem() {
    let server = pieces().serve();
    let text = json!({ "value": "abc", "encoding": "utf-8" });
    let inputs = |inputs: Value| json!({ "inputs": inputs });
    for (process, request, code) in [
        ("none", inputs(json!({})), FaultCode::UnknownOperation),
        ("pieces:none", inputs(json!({})), FaultCode::UnknownOperation),
        ("pieces", inputs(json!({})), FaultCode::MissingParameter),
        ("pieces", inputs(json!({ "text": text, "m": 1 })), FaultCode::UnexpectedParameter),
        ("pieces", inputs(json!({ "text": text, "n": "4" })), FaultCode::InvalidValue),
        ("pieces", inputs(json!({ "text": text, "n": 1.5 })), FaultCode::InvalidValue),
        ("pieces", inputs(json!({ "text": text, "n": 0 })), FaultCode::ValueOutOfRange),
        ("pieces", inputs(json!({ "text": "a*" })), FaultCode::InvalidValue),
        (
            "pieces",
            inputs(json!({ "text": { "href": "http://127.0.0.1:9/" } })),
            FaultCode::AddressForbidden,
        ),
        ("pieces", inputs(json!([])), FaultCode::MalformedMessage),
        ("pieces", json!(3), FaultCode::MalformedMessage),
        (
            "pieces",
            json!({ "inputs": { "text": text }, "outputs": { "none": {} } }),
            FaultCode::UnexpectedParameter,
        ),
        ("pieces", inputs(json!({ "text": text, "n": 13 })), FaultCode::ProgramFailed),
    ] {
        let answer = run(&server, process, "", &request);
        assert_eq!(answer.field("content-type"), Some("application/problem+json"), "{answer:?}");
        let problem = json_of(&answer);
        let told = (answer.status, &problem["code"]);
        assert_eq!(told, (status(Protocol::Ogc, code), &json!(code.name())), "{request}");
        assert_eq!(problem["status"], answer.status);
    }
    let failed = spawned(&server, "pieces", &inputs(json!({ "text": text, "n": 13 })));
    wait_for(&server, &failed, "failed");
    let why = server.get(&format!("{failed}/results"));
    assert_eq!((why.status, &json_of(&why)["exitCode"]), (422, &json!(7)));
    let media = server.exchange(
        "POST",
        "/ogc/processes/pieces/execution",
        "Content-Type: text/xml\r\n",
        b"<a/>",
    );
    assert_eq!(media.status, 415);
    for (method, path, allow) in [
        ("PUT", "/ogc/processes", "GET, HEAD"),
        ("GET", "/ogc/processes/pieces/execution", "POST"),
        ("POST", "/ogc/jobs/1", "GET, HEAD, DELETE"),
    ] {
        let answer = server.exchange(method, path, "", b"");
        assert_eq!((answer.status, answer.field("allow")), (405, Some(allow)), "{method} {path}");
        assert_eq!(json_of(&answer)["status"], 405, "{answer:?}");
    }
    for path in ["/ogc/nothing", "/ogc/processes/none", "/ogc/jobs/1"] {
        let answer = server.get(path);
        assert_eq!((answer.status, &json_of(&answer)["status"]), (404, &json!(404)), "{path}");
    }
    for query in ["jobs?limit=0", "jobs?status=x", "processes?limit=x", "openapi.json?version=2"] {
        assert_eq!(server.get(&format!("/ogc/{query}")).status, 400, "{query}");
    }
}

#[test]
fn a_problem_is_told_as_what_is_accepted() {
    let server = pieces().serve();
    for (accepted, told) in [
        ("*/*", "application/problem+json"),
        ("application/json", "application/json"),
        ("application/json, */*;q=0.1", "application/problem+json"),
        ("application/json, application/problem+json", "application/problem+json"),
        ("text/plain", "application/problem+json"),
    ] {
        let answer = server.exchange("GET", "/ogc/jobs/1", &format!("Accept: {accepted}\r\n"), b"");
        assert_eq!((answer.status, answer.field("content-type")), (404, Some(told)), "{accepted}");
        assert_eq!(json_of(&answer)["code"], "NoSuchJob");
    }
}

#[test]
fn a_page_is_given_to_who_wants_html_rather_than_json() {
    let server = pieces().serve();
    for (accepted, is_page) in [
        ("text/html", true),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
        ("application/json;q=0.5, text/html", true),
        ("text/html;q=0.5, application/json", false),
        ("text/html, application/json", false),
        ("text/html;q=0", false),
        ("text/htmlx", false),
        ("*/*", false),
    ] {
        let answer = server.exchange("GET", "/ogc/jobs", &format!("Accept: {accepted}\r\n"), b"");
        let told = answer.field("content-type").unwrap().starts_with("text/html");
        assert_eq!((answer.status, told), (200, is_page), "{accepted}");
    }
}

#[test]
fn every_address_has_a_page() {
    let server = pieces().serve();
    let job = spawned(&server, "pieces", &json!({ "inputs": { "text": "PGI+" } }));
    wait_for(&server, &job, "successful");
    let page = |method: &str, at: &str| {
        let mut answer = server.exchange(method, at, "Accept: text/html\r\n", b"");
        while answer.status == 303 {
            let to = answer.field("location").unwrap();
            let to = to.strip_prefix(&format!("http://{}", server.address)).unwrap_or(to);
            answer = server.exchange("GET", to, "Accept: text/html\r\n", b"");
        }
        let told = answer.field("content-type");
        assert_eq!((answer.status, told), (200, Some("text/html; charset=utf-8")), "{at}");
        answer.text().to_owned()
    };
    for (at, part) in [
        ("/ogc", "<h1>"),
        ("/ogc/conformance", "conf/html"),
        ("/ogc/processes", "Pieces"),
        ("/ogc/processes/pieces", "class=\"run\""),
        ("/ogc/openapi.json", "<code>/processes/pieces/execution</code>"),
        ("/ogc/jobs", "<h1>"),
        (&*job, "<h1>Pieces</h1>"),
        (&*format!("{job}/log?stream=stderr"), "<h1>Log: stderr</h1>"),
        (&*format!("{job}/results"), "<h1>Pieces</h1>"),
        (&*format!("{job}/results/head"), "&lt;b&gt;"),
        (&*format!("{job}/results/size"), "<td>3</td>"),
    ] {
        let shown = page("GET", at);
        assert!(shown.contains(part), "no {part} at {at}: {shown}");
    }
    assert!(!page("GET", &format!("{job}/results/size")).contains("&lt;b&gt;"));
    page("DELETE", &job);
    assert_eq!(server.get(&job).status, 404);
}

#[test]
fn names_of_the_next_version_stand_beside_those_of_this_one() {
    let server = pieces().serve();
    let job = spawned(&server, "pieces", &json!({ "inputs": { "text": "YWJj", "n": 13 } }));
    let failed = wait_for(&server, &job, "failed");
    assert_eq!(failed["id"], failed["jobID"]);
    assert_eq!(failed["process"]["href"], href(&failed, "rel/ogc/1.0/processes"));
    assert_eq!(failed["exception"]["detail"], failed["message"]);
    let inputs = &get(&server, "/ogc/processes/pieces")["inputs"];
    assert_eq!(inputs["text"]["valuePassing"], json!(["byValue", "byReference"]));
    assert_eq!(inputs["n"]["valuePassing"], json!(["byValue"]));
}

#[test]
fn a_request_beyond_json_size_is_told_where_large_inputs_go() {
    let mut setup = pieces();
    setup.limits.faces.json_size = 1000;
    let server = setup.serve();
    let request = json!({ "inputs": { "text": "YWJj".repeat(500) } });
    let answer = run(&server, "pieces", "", &request);
    let problem = json_of(&answer);
    assert_eq!((answer.status, &problem["limit"]["name"]), (413, &json!("json_size")));
    assert!(problem["detail"].as_str().unwrap().contains("/data/"), "{problem}");
}

#[test]
fn the_same_key_is_the_same_job() {
    let server = pieces().serve();
    let keyed = |n: i32| {
        let request = json!({ "inputs": { "text": "YWJj", "n": n } }).to_string();
        let fields =
            "Content-Type: application/json\r\nPrefer: respond-async\r\nIdempotency-Key: one\r\n";
        server.exchange("POST", "/ogc/processes/pieces/execution", fields, request.as_bytes())
    };
    let first = json_of(&keyed(2));
    assert_eq!(json_of(&keyed(2))["jobID"], first["jobID"]);
    assert_eq!(keyed(3).status, status(Protocol::Ogc, FaultCode::KeyConflict));
}

#[test]
fn a_job_of_another_face_is_seen_here() {
    let server = pieces().serve();
    let fields = "Content-Type: text/xml\r\nSOAPAction: \"\"\r\n";
    let spawn = envelope("pieces", "spawn", "<text>YWJj</text>");
    let spawned = server.exchange("POST", "/pieces", fields, spawn.as_bytes());
    let job = format!("/ogc/jobs/{}", spawned.element("job").unwrap());
    wait_for(&server, &job, "successful");
    let results = get(&server, &format!("{job}/results"));
    assert_eq!((&results["head"]["value"], &results["size"]), (&json!("YWJj"), &json!(3)));
    let metrics = server.get("/metrics");
    let line = "fishplate_calls_total{service=\"pieces\",verb=\"results\",outcome=\"ok\"} 1\n";
    assert!(metrics.text().contains(line), "{}", metrics.text());
}

#[test]
fn openapi_describes_each_process_in_both_versions() {
    let server = pieces().with_matrix().serve();
    for (version, dialect) in [("3.0", "3.0.3"), ("3.1", "3.1.0")] {
        let document = get(&server, &format!("/ogc/openapi.json?version={version}"));
        assert_eq!(document["openapi"], dialect);
        let run = &document["paths"]["/processes/pieces/execution"]["post"];
        let request = &run["requestBody"]["content"]["application/json"]["schema"];
        assert_eq!(request["properties"]["inputs"]["required"], json!(["text"]));
        assert_eq!(request["properties"]["inputs"]["title"], "pieces inputs");
        let n = &request["properties"]["inputs"]["properties"]["n"];
        assert_eq!((&n["maximum"], &n["x-ogc-unit"]), (&json!(1000), &json!("B")));
        let form = &run["requestBody"]["content"]["multipart/form-data"]["schema"];
        assert_eq!(form["properties"]["text"]["format"], "binary");
        assert_eq!(form["properties"]["n"]["maximum"], 1000);
        let output = &document["paths"]["/jobs/{jobID}/results/{outputID}"]["get"]["parameters"];
        assert_eq!((&output[2]["name"], &output[2]["in"]), (&json!("item"), &json!("query")));
        let echo = &document["paths"]["/processes/matrix:echo/execution"]["post"];
        let answer = &echo["responses"]["200"]["content"]["application/json"]["schema"];
        assert_eq!(answer["title"], "matrix echo answer");
        // Each reference leads somewhere.
        let text = document.to_string();
        for part in text.split("#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(document["components"]["schemas"][name].is_object(), "{name}");
        }
    }
}

/// The next request that comes there: its first line and its body.
fn told(listener: &TcpListener) -> (String, Value) {
    let (stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some(told) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = told.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    reader.get_mut().write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").unwrap();
    (first.trim().to_owned(), serde_json::from_slice(&body).unwrap())
}

#[test]
fn a_subscriber_is_told_how_a_job_ends() {
    let mut setup = pieces();
    setup.limits.data.allow_private = true;
    let server = setup.serve();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("http://{}", listener.local_addr().unwrap());
    let subscriber =
        json!({ "successUri": format!("{at}/done?x=1"), "failedUri": format!("{at}/failed") });
    let request =
        |n: i32| json!({ "inputs": { "text": "YWJj", "n": n }, "subscriber": subscriber });
    // There is a job, though nobody asked for one.
    let answer = run(&server, "pieces", "", &request(2));
    assert_eq!(answer.status, 201, "{answer:?}");
    let (first, results) = told(&listener);
    assert_eq!(first, "POST /done?x=1 HTTP/1.1");
    assert_eq!((&results["head"]["value"], &results["size"]), (&json!("YWI="), &json!(2)));
    let job = spawned(&server, "pieces", &request(13));
    let (first, failed) = told(&listener);
    assert_eq!((first.as_str(), &failed["status"]), ("POST /failed HTTP/1.1", &json!("failed")));
    assert!(job.ends_with(failed["jobID"].as_str().unwrap()));
}

#[test]
fn a_subscriber_is_within_the_rules_for_what_the_server_may_ask() {
    let server = pieces().serve();
    for (uri, code) in [
        ("http://127.0.0.1:9/", FaultCode::AddressForbidden),
        ("mailto:ada@example.org", FaultCode::InvalidValue),
    ] {
        let request = json!({ "inputs": { "text": "YWJj" }, "subscriber": { "successUri": uri } });
        let answer = run(&server, "pieces", "", &request);
        assert_eq!(
            (answer.status, &json_of(&answer)["code"]),
            (status(Protocol::Ogc, code), &json!(code.name()))
        );
    }
    assert_eq!(get(&server, "/ogc/jobs")["jobs"], json!([]), "nothing was begun");
}
