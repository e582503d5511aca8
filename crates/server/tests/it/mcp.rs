//! Tools of assistants: what a client without an SDK sees, the limits of the face, and pages of other sites.

use serde_json::{Value, json};

use crate::bed::{Answer, Server, Setup, until};

const TURN: &str = "name = 'turn'\ntitle = 'Turns'\ncommand = './turn [in file text:raw] > [out file turned:raw]'\n";
const HOLD: &str = "name = 'hold'\ncommand = './hold [in val name:string] > [out file said:raw]'";

fn setup() -> Setup {
    let wait =
        "while [ -e \"$0\" ] && [ ! -e \"$(dirname \"$0\")/$1\" ]; do sleep 0.02; done; echo held";
    Setup::new().with("turn", TURN, "rev \"$1\"").with("hold", HOLD, wait)
}

fn ask(server: &Server, method: &str, params: &Value, more: &str) -> Answer {
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }).to_string();
    let fields = format!(
        "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2025-11-25\r\n{more}"
    );
    server.exchange("POST", "/mcp", &fields, body.as_bytes())
}

fn result(answer: &Answer) -> Value {
    let told: Value =
        serde_json::from_slice(&answer.body).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
    assert_eq!((answer.status, &told["id"]), (200, &json!(7)), "{told}");
    told["result"].clone()
}

fn call(server: &Server, tool: &str, arguments: &Value) -> Value {
    result(&ask(server, "tools/call", &json!({ "name": tool, "arguments": arguments }), ""))
}

#[test]
fn a_tool_is_called_as_json_rpc_over_http() {
    let server = setup().serve();
    let tools = result(&ask(&server, "tools/list", &json!({}), ""));
    let names: Vec<&str> =
        tools["tools"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["job_status", "job_results", "job_log", "job_cancel", "hold", "turn"]);
    let answer = call(&server, "turn", &json!({ "text": "abc" }));
    assert_eq!(answer["structuredContent"]["outputs"]["turned"]["text"], "cba", "{answer}");
    let answer = call(&server, "turn", &json!({}));
    assert_eq!(answer["isError"], true, "{answer}");
    assert!(
        answer["content"][0]["text"].as_str().unwrap().starts_with("MissingParameter"),
        "{answer}"
    );
    assert_eq!(server.get("/mcp").status, 405);
}

#[test]
fn what_is_larger_than_an_answer_holds_is_told_by_its_address() {
    let mut setup = setup();
    setup.limits.faces.mcp_inline_size = 4;
    setup.limits.faces.mcp_read_size = 5;
    let server = setup.serve();
    let told = call(&server, "turn", &json!({ "text": "12345" }));
    let turned = &told["structuredContent"]["outputs"]["turned"];
    assert!(turned["href"].as_str().unwrap().contains("/data/"), "{told}");
    assert_eq!((&turned["text"], &turned["size"]), (&Value::Null, &json!(5)), "{told}");
    let link = &told["content"][1];
    assert_eq!((&link["type"], &link["uri"]), (&json!("resource_link"), &turned["uri"]), "{told}");
    let read = result(&ask(&server, "resources/read", &json!({ "uri": turned["uri"] }), ""));
    assert_eq!(read["contents"][0]["text"], "54321", "{read}");
    let told = call(&server, "turn", &json!({ "text": "123456" }));
    let uri = &told["structuredContent"]["outputs"]["turned"]["uri"];
    let answer = ask(&server, "resources/read", &json!({ "uri": uri }), "");
    assert!(
        answer.text().contains("mcp_read_size") || answer.text().contains("more than the 5 bytes"),
        "{answer:?}"
    );
}

#[test]
fn a_message_beyond_mcp_size_is_refused_with_the_limit() {
    let mut setup = setup();
    setup.limits.faces.mcp_size = 1000;
    let server = setup.serve();
    let answer = ask(
        &server,
        "tools/call",
        &json!({ "name": "turn", "arguments": { "text": "a".repeat(1000) } }),
        "",
    );
    let told: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!((answer.status, &told["error"]["data"]["limit"]["name"]), (413, &json!("mcp_size")));
    assert!(told["error"]["message"].as_str().unwrap().contains("/data/"), "{told}");
}

#[test]
fn a_call_that_takes_longer_than_mcp_wait_is_answered_with_its_job() {
    let mut setup = setup();
    setup.limits.faces.mcp_wait = std::time::Duration::from_millis(100);
    let server = setup.serve();
    let told = call(&server, "hold", &json!({ "name": "never" }));
    let job = &told["structuredContent"]["job"];
    assert_eq!(
        (&job["ended"], &told["structuredContent"]["outputs"]),
        (&json!(false), &Value::Null),
        "{told}"
    );
    let ended = call(&server, "job_cancel", &json!({ "job": job["job"] }));
    assert_ne!(ended["isError"], json!(true), "{ended}");
}

#[test]
fn a_task_says_how_long_it_is_kept_when_it_has_ended() {
    let mut setup = setup();
    setup.limits.faces.mcp_wait = std::time::Duration::from_millis(100);
    setup.limits.jobs.retention = std::time::Duration::from_secs(3600);
    let server = setup.serve();
    let told = call(&server, "hold", &json!({ "name": "never" }));
    let job = told["structuredContent"]["job"]["job"].as_str().unwrap();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": { "extensions": { "io.modelcontextprotocol/tasks": {} } },
    });
    let params = json!({ "taskId": job, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "tasks/get", "params": params });
    let fields = format!(
        "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tasks/get\r\nMcp-Name: {job}\r\n"
    );
    let task = result(&server.exchange("POST", "/mcp", &fields, body.to_string().as_bytes()));
    assert_eq!(task["status"], "working", "{task}");
    assert!(task["ttlMs"].as_u64().is_some_and(|ttl| ttl >= 3_600_000), "{task}");
    call(&server, "job_cancel", &json!({ "job": job }));
}

#[test]
fn pages_of_other_sites_may_not_call_tools() {
    let server = setup().serve();
    let answer = ask(&server, "tools/list", &json!({}), "Origin: http://evil.example\r\n");
    assert_eq!(answer.status, 403, "{answer:?}");
    for body in [
        "",
        "{",
        "[]",
        "[[[[",
        "{\"jsonrpc\":\"2.0\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":5}",
    ] {
        let fields =
            "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n";
        let answer = server.exchange("POST", "/mcp", fields, body.as_bytes());
        assert!((400..500).contains(&answer.status), "{body}: {answer:?}");
    }
}

#[test]
fn who_was_refused_a_tool_stands_in_the_audit_log_with_the_address() {
    let mut setup = setup();
    let policy = setup.directory.path().join("policy.toml");
    let rule = "[[allow]]\nwho = '@anybody'\nmay = 'see'\n";
    std::fs::write(&policy, rule).unwrap();
    setup.limits.faces.policy = Some(policy);
    let server = setup.serve();
    let told = call(&server, "turn", &json!({ "text": "abc" }));
    assert!(told.to_string().contains("Forbidden"), "{told}");
    let audit = || std::fs::read_to_string(server.data("audit.log")).unwrap_or_default();
    until("it is noted", || audit().contains("\"event\":\"refusal\""));
    let audit = audit();
    let mut refusals = audit.lines().filter(|line| line.contains("\"event\":\"refusal\""));
    assert!(refusals.all(|line| line.contains("\"address\":\"127.0.0.1\"")), "{audit}");
}
