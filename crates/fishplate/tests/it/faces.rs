//! What holds on every face: who calls is asked, what a policy and quotas say, and that what was used is accounted for.

use std::io::Write as _;

use serde_json::{Value, json};

use crate::login::Site;
use crate::run::User;
use crate::server::until;
use crate::soap::{answer, connect};

const POLICY: &str = "\
[[allow]]
who = ['ada', 'bob']

[[allow]]
who = 'eve'
may = 'see'
";

/// A face that runs the service `test`.
struct Face {
    path: &'static str,
    request: fn() -> Value,
    /// The code of the fault that an answer tells; empty if it tells none.
    code: fn(&Value) -> &str,
    /// The status of answers that tell of a service's faults.
    forbidden: u16,
    exceeded: u16,
}

const FACES: [Face; 2] = [
    Face {
        path: "/ogc/processes/test/execution",
        request: || json!({ "inputs": { "x": 1 }, "response": "document" }),
        code: |told| told["code"].as_str().unwrap_or_default(),
        forbidden: 403,
        exceeded: 413,
    },
    Face {
        path: "/mcp",
        request: || {
            let call = json!({ "name": "test", "arguments": { "x": 1 } });
            json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call })
        },
        code: |told| {
            let text = told["result"]["content"][0]["text"].as_str().unwrap_or_default();
            let code = text.split(':').next().unwrap_or_default();
            if told["result"]["isError"] == true { code } else { "" }
        },
        // An assistant reads faults as answers.
        forbidden: 200,
        exceeded: 200,
    },
];

#[test]
fn login_policy_quotas_and_accounts_hold_on_the_faces_for_json_and_assistants() {
    for face in &FACES {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy.toml");
        std::fs::write(&policy, POLICY).unwrap();
        let policy = policy.to_str().unwrap();
        let site = Site::new(&["--policy", policy, "--limit", "owner_cpu_time=1ms"]);
        let ask = |who: &str| {
            let login = match who {
                "" => String::new(),
                who => format!("Authorization: Bearer {}\r\n", site.token(&["--user", who])),
            };
            let (body, path) = ((face.request)().to_string(), face.path);
            let request = format!(
                "POST {path} HTTP/1.1\r\nHost: localhost\r\n{login}Content-Type: application/json\r\n\
                 Accept: application/json, text/event-stream\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            let mut stream = connect(&site.server);
            stream.write_all(request.as_bytes()).unwrap();
            let answer = answer(&mut stream);
            let told = serde_json::from_str(&answer.body).unwrap_or_default();
            (answer.status, (face.code)(&told).to_owned())
        };
        for who in ["ada", "bob", "eve"] {
            site.add(who, "correct-horse&battery");
        }
        let path = face.path;
        assert_eq!(ask("").0, 401, "{path}");
        assert_eq!(ask("ada"), (200, String::new()), "{path}");
        assert_eq!(ask("eve"), (face.forbidden, "Forbidden".to_owned()), "{path}");
        until("it is used up", || ask("ada") == (face.exceeded, "QuotaExceeded".to_owned()));
        assert_eq!(ask("bob"), (200, String::new()), "{path}");
        // Jobs of this user alone are accounted for as theirs, those of nobody and of who was refused not at all.
        let data = site.server.data();
        let accounts = || User::new().json(&["accounts", "--data", data.to_str().unwrap()]);
        let users = || -> Vec<Value> {
            let told = accounts()["accounts"].as_array().unwrap().clone();
            told.into_iter().map(|it| it["user"].clone()).collect()
        };
        until("all is accounted for", || users().len() == 2);
        let mut users = users();
        users.sort_by_key(Value::to_string);
        assert_eq!(users, ["ada", "bob"], "{path}");
        let used = accounts();
        let used = used["accounts"].as_array().unwrap().iter();
        assert!(used.clone().all(|it| it["jobs"].as_u64() >= Some(1)), "{path}: {:?}", accounts());
    }
}
