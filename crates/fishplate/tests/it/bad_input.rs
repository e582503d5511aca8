//! What can be wrong with a message or a program: each is a clear fault, nothing is left behind,
//! and the server goes on.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::server::{Server, until};
use crate::soap::{
    Answer, VERSIONS, Version, answer, ask, connect, get, head, key_header, post, post_as,
    post_truncated, try_answer, wrapper,
};

const NO_JOB: &str = "000102030405060708090a0b0c0d0e0f";

/// Answers with its argument, and takes a range, a choice, a text and a file.
const DESCRIPTION: &str = r#"
name = "test"
command = "./program [in val x:int] [in val mode:string] [in val note:string] > [out file y:string]"
[input.x]
min = 0
max = 9
[input.mode]
choices = ["slow", "fast"]
default = "fast"
[input.note]
default = "none"
[input.deck]
type = "raw"
filename = "deck"
optional = true
"#;

fn server(options: &[&str]) -> Server {
    let mut server = Server::prepare();
    server.script("program", "echo $1 $2 $3");
    std::fs::write(server.path("service.toml"), DESCRIPTION).unwrap();
    server.serve(&[options, &["service.toml"]].concat());
    server
}

/// A call that is right is answered, and no file of a message or a job is left.
#[track_caller]
fn assert_unharmed(server: &Server, what: &str) {
    for version in VERSIONS {
        let good = ask(server, version, "call", "<x>7</x>");
        assert_eq!(
            (good.status, good.text("y")),
            (200, Some("7 fast none\n")),
            "{what}: {good:#?}"
        );
    }
    until(&format!("nothing is left after: {what}"), || files_left(server).is_empty());
}

/// Files below `spool` and `jobs` of the data directory.
fn files_left(server: &Server) -> Vec<String> {
    let list = |path: &Path| -> Vec<_> {
        std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let spooled = list(&server.path("data/spool")).into_iter().flat_map(|process| list(&process));
    let jobs = list(&server.path("data/jobs"));
    spooled.chain(jobs).map(|path| path.display().to_string()).collect()
}

#[test]
fn arguments_that_are_wrong_are_refused_by_name() {
    let server = server(&[]);
    let unknown_job = format!("<job>{NO_JOB}</job>");
    let cases: [(&str, &str, &str, Option<&str>); 18] = [
        ("call", "<x>a</x>", "InvalidValue", Some("x")),
        ("call", "<x>99999999999</x>", "InvalidValue", Some("x")),
        ("call", "<x></x>", "InvalidValue", Some("x")),
        ("call", "", "MissingParameter", Some("x")),
        ("spawn", "", "MissingParameter", Some("x")),
        // A toolkit that leaves out zeros: nobody but the caller knows that it is one.
        ("call", "<mode>fast</mode>", "MissingParameter", Some("x")),
        ("call", "<x>1</x><z>1</z>", "UnexpectedParameter", Some("z")),
        ("call", "<x>1</x><x>2</x>", "UnexpectedParameter", Some("x")),
        ("call", "<x>10</x>", "ValueOutOfRange", Some("x")),
        ("call", "<x>-1</x>", "ValueOutOfRange", Some("x")),
        ("call", "<x>1</x><mode>medium</mode>", "ValueOutOfRange", Some("mode")),
        ("call", "<x>1</x><note>--delete</note>", "InvalidValue", Some("note")),
        ("call", "<x>1</x><deck>%%%</deck>", "InvalidValue", Some("deck")),
        ("status", &unknown_job, "NoSuchJob", None),
        ("results", "<job>../../etc</job>", "NoSuchJob", Some("job")),
        ("status", "", "MissingParameter", Some("job")),
        ("jobs", "<limit>0</limit>", "ValueOutOfRange", Some("limit")),
        ("frobnicate", "<x>1</x>", "UnknownOperation", None),
    ];
    for version in VERSIONS {
        for (verb, children, code, parameter) in cases {
            let refused = ask(&server, version, verb, children);
            refused.assert_fault(version, code);
            assert_eq!(refused.text("parameter"), parameter, "{verb} {children}: {refused:#?}");
        }
    }
    assert_unharmed(&server, "wrong arguments");
}

#[test]
fn messages_that_are_wrong_are_refused_in_the_shape_of_their_version() {
    let server = server(&[]);
    let good = wrapper("call", "<x>1</x>");
    for version in VERSIONS {
        let envelope = |header: &str, body: &str| version.envelope(header, body);
        let whole = envelope("", &good);
        let nested = |depth| format!("{}{}", "<n>".repeat(depth), "</n>".repeat(depth));
        let bomb: String = (1..10)
            .map(|n| format!("<!ENTITY e{n} \"{}\">", format!("&e{};", n - 1).repeat(10)))
            .collect();
        let bomb = format!("<!DOCTYPE b [<!ENTITY e0 \"lol\">{bomb}]>");
        let entity = envelope("", &wrapper("call", "<x>&e9;</x>"));
        let foreign = |attribute: &str| {
            format!("<e:Header><h xmlns=\"urn:other\" {attribute}=\"1\"/></e:Header>")
        };
        let addressed = "<e:Header><a:ReplyTo xmlns:a=\"http://www.w3.org/2005/08/addressing\">\
             <a:Address>http://127.0.0.1:1/</a:Address></a:ReplyTo></e:Header>";
        let acts = "<e:Header><a:Action xmlns:a=\"http://www.w3.org/2005/08/addressing\">\
             urn:fishplate:test#spawn</a:Action></e:Header>";
        let many: String = (0..70).map(|n| format!(" a{n}=\"\"")).collect();
        let cases = [
            ("not XML", "solve this".to_owned(), "MalformedMessage", None),
            ("nothing", String::new(), "MalformedMessage", None),
            ("cut off", whole[..whole.len() - 20].to_owned(), "MalformedMessage", None),
            ("two roots", whole.repeat(2), "MalformedMessage", None),
            ("a tag left open", envelope("", "<call><x>1</call>"), "MalformedMessage", None),
            ("DOCTYPE", format!("<!DOCTYPE e>{whole}"), "ForbiddenContent", None),
            (
                "external DOCTYPE",
                format!("<!DOCTYPE e SYSTEM \"file:///etc/passwd\">{whole}"),
                "ForbiddenContent",
                None,
            ),
            ("entity bomb", format!("{bomb}{entity}"), "ForbiddenContent", None),
            ("undeclared entity", entity.clone(), "ForbiddenContent", None),
            ("instruction", format!("<?php exit ?>{whole}"), "ForbiddenContent", None),
            (
                "deep in a value",
                envelope("", &wrapper("call", &format!("<x>{}</x>", nested(100)))),
                "InvalidValue",
                None,
            ),
            (
                "deep in the body",
                envelope("", &nested(100_000)),
                "MessageTooLarge",
                Some("xml_depth"),
            ),
            (
                "deep in a header",
                envelope(&format!("<e:Header>{}</e:Header>", nested(100)), &good),
                "MessageTooLarge",
                Some("xml_depth"),
            ),
            (
                "attributes",
                envelope("", &format!("<call xmlns=\"urn:fishplate:test\"{many}/>")),
                "MessageTooLarge",
                Some("attributes"),
            ),
            (
                "another namespace",
                envelope("", "<call xmlns=\"urn:other\"><x>1</x></call>"),
                "UnknownOperation",
                None,
            ),
            (
                "mustUnderstand",
                envelope(&foreign("e:mustUnderstand"), &good),
                "MustUnderstand",
                None,
            ),
            ("ReplyTo", envelope(addressed, &good), "InvalidAddressing", None),
            ("Action", envelope(acts, &good), "ActionMismatch", None),
            ("a bare attribute", whole.replacen(' ', " id=\"1\" ", 1), "MalformedMessage", None),
        ];
        let encoded =
            "<call xmlns=\"urn:fishplate:test\" e:encodingStyle=\"urn:mine\"><x>1</x></call>";
        if version == Version::V12 {
            post(&server, version, &envelope("", encoded))
                .assert_fault(version, "DataEncodingUnknown");
        }
        for (what, message, code, limit) in cases {
            let refused = post(&server, version, &message);
            refused.assert_fault(version, code);
            assert_eq!(refused.limit(), limit, "{what}: {refused:#?}");
        }
        assert_eq!(post(&server, version, &envelope(&foreign("note"), &good)).status, 200);
    }
    assert_unharmed(&server, "wrong messages");
}

#[test]
fn what_http_says_is_held_against_the_message() {
    let server = server(&[]);
    let message = |version: Version| version.envelope("", &wrapper("call", "<x>1</x>"));
    let send = |content_type: &str, fields: &str, version| {
        post_as(&server, content_type, fields, message(version).as_bytes())
    };
    let other = "SOAPAction: \"urn:fishplate:test#spawn\"\r\n";
    send("text/xml", other, Version::V11).assert_fault(Version::V11, "ActionMismatch");
    send("application/soap+xml; action=\"urn:fishplate:test#spawn\"", "", Version::V12)
        .assert_fault(Version::V12, "ActionMismatch");
    for fields in ["", "SOAPAction: \"\"\r\n", "SOAPAction: \"urn:fishplate:test#call\"\r\n"] {
        assert_eq!(send("text/xml", fields, Version::V11).status, 200, "{fields}");
    }
    send("application/json", "", Version::V11).assert_fault(Version::V11, "UnsupportedMediaType");
    let old =
        message(Version::V11).replace("schemas.xmlsoap.org/soap/envelope", "example.org/soap");
    post(&server, Version::V11, &old).assert_fault(Version::V11, "VersionMismatch");

    let mut stream = connect(&server);
    stream
        .write_all(b"DELETE /test HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    assert_eq!(answer(&mut stream).status, 405);
    assert_eq!(get(&server, "/nothing").status, 404);
    assert_eq!(get(&server, "/test?wsdl&data=nothing").status, 404);
    assert_unharmed(&server, "wrong HTTP");
}

#[test]
fn who_wants_no_answer_gets_none() {
    let server = server(&[]);
    let wsa = "http://www.w3.org/2005/08/addressing";
    let send = |version: Version, headers: &[(&str, &str)], x: &str| {
        let headers: String = headers
            .iter()
            .map(|(name, address)| {
                format!("<a:{name}><a:Address>{wsa}/{address}</a:Address></a:{name}>")
            })
            .collect();
        let header = format!("<e:Header xmlns:a=\"{wsa}\">{headers}</e:Header>");
        let body = wrapper("call", &format!("<x>{x}</x>"));
        post(&server, version, &version.envelope(&header, &body))
    };
    for version in VERSIONS {
        for (headers, result, fault) in [
            (&[("ReplyTo", "none")][..], false, false),
            (&[("FaultTo", "none")], true, false),
            (&[("ReplyTo", "none"), ("FaultTo", "anonymous")], false, true),
        ] {
            for (x, wanted) in [("7", result), ("seven", fault)] {
                let answer = send(version, headers, x);
                assert_eq!(answer.status != 202, wanted, "{headers:?} {answer:#?}");
                assert_eq!(answer.body.is_empty(), !wanted, "{answer:#?}");
            }
        }
    }
    let away = send(Version::V12, &[("ReplyTo", "elsewhere")], "7");
    away.assert_fault(Version::V12, "InvalidAddressing");
    assert!(away.body.contains(":OnlyAnonymousAddressSupported<"), "{away:#?}");
    assert_unharmed(&server, "calls without answers");
}

/// It is forgotten as if its results had been sent.
#[test]
fn a_job_whose_results_nobody_wants_is_forgotten() {
    let server = Server::of_script("echo 1", &[">", "[out file y:raw]"]);
    let wsa = "http://www.w3.org/2005/08/addressing";
    let header = format!(
        "<e:Header xmlns:a=\"{wsa}\"><a:ReplyTo><a:Address>{wsa}/none</a:Address></a:ReplyTo></e:Header>"
    );
    let called = post(&server, Version::V11, &Version::V11.envelope(&header, &wrapper("call", "")));
    assert_eq!(called.status, 202, "{called:#?}");
    until("no job is left", || {
        let listed = ask(&server, Version::V11, "jobs", "");
        listed.status == 200 && listed.text("job").is_none()
    });
}

#[test]
fn what_is_too_large_is_refused_by_the_limits_name() {
    let server = server(&[
        "--limit",
        "envelope_size=64KiB",
        "--limit",
        "message_size=3MiB",
        "--limit",
        "text_size=4KiB",
    ]);
    let note = |size| format!("<x>1</x><note>{}</note>", "n".repeat(size));
    let deck = |size: usize| format!("<x>1</x><deck>{}</deck>", "QUFB".repeat(size / 4));
    for version in VERSIONS {
        let cases = [
            (format!("{}<x>1</x>", " ".repeat(100_000)), "envelope_size"),
            (note(5_000), "text_size"),
            (deck(4_000_000), "message_size"),
        ];
        for (children, limit) in cases {
            let refused = ask(&server, version, "call", &children);
            refused.assert_fault(version, "MessageTooLarge");
            assert_eq!(refused.limit(), Some(limit), "{refused:#?}");
        }
        // A file is no part of what envelope_size bounds.
        assert_eq!(ask(&server, version, "call", &deck(2_000_000)).status, 200);
    }
    assert_unharmed(&server, "oversize");
}

#[test]
fn a_body_that_breaks_off_is_refused_and_leaves_nothing() {
    let server = server(&[]);
    let deck = "QUFB".repeat(500_000);
    let message =
        Version::V11.envelope("", &wrapper("call", &format!("<x>1</x><deck>{deck}</deck>")));
    let half = &message.as_bytes()[..message.len() / 2];
    let chunk = |bytes: &[u8]| {
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk
    };
    let announced = format!("Content-Length: {}\r\n", message.len());
    let chunked = "Transfer-Encoding: chunked\r\n";
    let mut longer = chunk(half);
    longer.extend_from_slice(b"\r\nfff\r\n");
    let mut garbage = chunk(half);
    garbage.extend_from_slice(b"\r\nno size\r\n");
    let cases = [
        ("shorter than announced", announced.as_str(), half.to_vec()),
        ("nothing of it", announced.as_str(), Vec::new()),
        ("a chunk cut", chunked, longer),
        ("no last chunk", chunked, chunk(half)),
        ("garbage for a chunk", chunked, garbage),
    ];
    for (what, fields, body) in cases {
        let refused = post_truncated(&server, fields, &body);
        refused
            .unwrap_or_else(|| panic!("{what}: no answer"))
            .assert_fault(Version::V11, "MalformedMessage");
    }
    // A sender who is gone altogether gets no answer.
    let mut stream = connect(&server);
    stream.write_all(head("text/xml", &announced).as_bytes()).unwrap();
    stream.write_all(half).unwrap();
    drop(stream);
    assert_unharmed(&server, "truncated bodies");
}

#[test]
fn a_body_that_trickles_or_stalls_is_refused_while_others_are_served() {
    let server = server(&["--limit", "body_stall=1s", "--limit", "body_rate=1KiB"]);
    let message = Version::V11.envelope("", &wrapper("call", "<x>1</x>"));
    let announced = format!("Content-Length: {}\r\n", message.len());

    let mut stalled = connect(&server);
    stalled.write_all(head("text/xml", &announced).as_bytes()).unwrap();
    stalled.write_all(&message.as_bytes()[..30]).unwrap();
    assert_eq!(ask(&server, Version::V11, "call", "<x>1</x>").status, 200);
    let refused = answer(&mut stalled);
    refused.assert_fault(Version::V11, "TimedOut");
    assert_eq!(refused.limit(), Some("body_stall"), "{refused:#?}");

    let mut slow = connect(&server);
    slow.write_all(head("text/xml", &announced).as_bytes()).unwrap();
    let mut reader = slow.try_clone().unwrap();
    let reading = std::thread::spawn(move || answer(&mut reader));
    for byte in message.as_bytes() {
        if reading.is_finished() || slow.write_all(&[*byte]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let refused = reading.join().unwrap();
    refused.assert_fault(Version::V11, "TimedOut");
    assert_eq!(refused.limit(), Some("body_rate"), "{refused:#?}");
    assert_unharmed(&server, "slow bodies");
}

#[test]
fn a_reader_who_takes_nothing_is_given_up() {
    const SIZE: u64 = 64 << 20;
    let mut server = Server::prepare();
    server.script("program", "head -c 67108864 /dev/zero");
    server.serve(&[
        "--limit",
        "answer_stall=1s",
        "-n",
        "test",
        "--",
        "./program",
        ">",
        "[out file y:raw]",
    ]);
    let mut idle = connect(&server);
    let message = Version::V11.envelope("", &wrapper("call", ""));
    let announced = format!("Content-Length: {}\r\n", message.len());
    idle.write_all(head("text/xml", &announced).as_bytes()).unwrap();
    idle.write_all(message.as_bytes()).unwrap();
    // Nothing is read until the server has let go of it. The connection that asks counts as well.
    let open = |connections: u32| {
        let line = format!("fishplate_connections {connections}");
        get(&server, "/metrics").body.lines().any(|its| its == line)
    };
    until("two connections are open", || open(2));
    until("the idle one is closed", || open(1));
    let mut taken = Vec::new();
    let _ = idle.read_to_end(&mut taken);
    assert!((taken.len() as u64) < SIZE, "all of {} bytes came", taken.len());
    assert!(taken.starts_with(b"HTTP/1.1 200"), "{}", taken.len());
}

#[test]
fn a_job_is_its_owners_alone_and_has_no_results_before_its_end() {
    let mut server = Server::prepare();
    server.script(
        "program",
        "echo run >> DIR/runs; until [ -e DIR/go ]; do sleep 0.05; done; echo $1",
    );
    server.serve(&[
        "--user-header",
        "X-User",
        "-n",
        "test",
        "--",
        "./program",
        "[in val x:int]",
        ">",
        "[out file y:int]",
    ]);
    let by = |user: &str, verb: &str, children: &str| {
        let message = Version::V11.envelope("", &wrapper(verb, children));
        post_as(&server, "text/xml", &format!("X-User: {user}\r\n"), message.as_bytes())
    };
    let spawned = by("ann", "spawn", "<x>5</x>");
    let job = format!("<job>{}</job>", spawned.text("job").unwrap());
    until("it runs", || server.runs() == 1);

    let early = by("ann", "results", &job);
    early.assert_fault(Version::V11, "NotFinished");
    assert!(
        early.text("retryAfter").is_some() && early.head.contains("retry-after:"),
        "{early:#?}"
    );
    by("ann", "remove", &job).assert_fault(Version::V11, "NotFinished");
    for verb in ["status", "running", "results", "log", "kill", "remove"] {
        by("bob", verb, &job).assert_fault(Version::V11, "NoSuchJob");
        // Past the proxy, nobody is named: that is nobody's account.
        assert_eq!(ask(&server, Version::V11, verb, &job).status, 401);
    }
    assert!(!by("bob", "jobs", "").body.contains(spawned.text("job").unwrap()));
    assert_eq!(by("ann", "running", &job).text("running"), Some("true"));

    std::fs::write(server.path("go"), "").unwrap();
    until("it has ended", || by("ann", "running", &job).text("running") == Some("false"));
    by("bob", "results", &job).assert_fault(Version::V11, "NoSuchJob");
    assert_eq!(by("ann", "results", &job).text("y"), Some("5"));
    assert_eq!(by("ann", "remove", &job).status, 200);
    until("nothing is left", || files_left(&server).is_empty());
}

#[test]
fn a_program_that_is_missing_is_a_fault_until_it_is_there() {
    let server = server(&[]);
    let (program, away) = (server.path("program"), server.path("away"));
    std::fs::rename(&program, &away).unwrap();
    for version in VERSIONS {
        ask(&server, version, "call", "<x>7</x>").assert_fault(version, "ProgramMissing");
    }
    std::fs::write(&program, "#!/bin/sh\n").unwrap();
    ask(&server, Version::V11, "call", "<x>7</x>").assert_fault(Version::V11, "ProgramMissing");
    std::fs::rename(&away, &program).unwrap();
    assert_unharmed(&server, "a missing program");
}

#[test]
fn a_program_that_fails_says_how_and_what_it_said_last() {
    let server = Server::of_script(
        "[ $1 = 7 ] && { echo 7 fast none; exit; }; echo about to die >&2; \
         [ $1 = 1 ] && kill -SEGV $$; [ $1 = 2 ] && kill -KILL $$; exit 3",
        &["[in val x:int]", ">", "[out file y:string]"],
    );
    for version in VERSIONS {
        for (x, code, how) in [
            ("1", "ProgramKilled", ("signal", "SIGSEGV")),
            ("2", "ProgramKilled", ("signal", "SIGKILL")),
            ("3", "ProgramFailed", ("exitCode", "3")),
        ] {
            let failed = ask(&server, version, "call", &format!("<x>{x}</x>"));
            failed.assert_fault(version, code);
            assert_eq!(failed.text(how.0), Some(how.1), "{failed:#?}");
            assert!(failed.text("stderr").unwrap().contains("about to die"), "{failed:#?}");
        }
    }
    assert_unharmed(&server, "failing programs");
}

#[test]
fn a_program_that_prints_for_ever_is_ended_by_its_limit() {
    for (stream, redirection, limit) in [
        ("1", "2> [out file y:string]", "log_size"),
        ("2", "> [out file y:string]", "log_size"),
        ("1", "> [out file y:string]", "value_size"),
        ("1", "> [out file y:raw]", "output_size"),
    ] {
        let server = Server::of_file(
            &format!("[ $1 = 7 ] && {{ echo 7; echo 7 >&2; exit; }}; exec yes >&{stream}"),
            &format!(
                "name = \"test\"\ncommand = \"./program [in val x:int] {redirection}\"\n\
                 [limits]\nlog_size = \"256KiB\"\nvalue_size = \"256KiB\"\noutput_size = \"64MiB\"\n"
            ),
        );
        let ended = ask(&server, Version::V11, "call", "<x>1</x>");
        ended.assert_fault(Version::V11, "LimitExceeded");
        assert_eq!(ended.limit(), Some(limit), "{redirection}: {ended:#?}");
        let good = ask(&server, Version::V11, "call", "<x>7</x>");
        assert_eq!(good.status, 200, "{good:#?}");
        until("nothing is left", || files_left(&server).is_empty());
    }
}

#[test]
fn a_full_disk_is_a_fault_and_room_makes_it_well() {
    let mut server = Server::prepare();
    let data = server.path("data");
    let Some(_disk) = crate::disk::small(&data, 32) else { return };
    server.script("program", "[ $1 = 1 ] && exec yes; echo 7 fast none");
    std::fs::write(server.path("service.toml"), DESCRIPTION.replace("y:string", "y:raw")).unwrap();
    // What is refused is read to its end all the same, however slow the machine is.
    server.serve(&["--limit", "disk_reserve=4MiB", "--limit", "drain_time=1min", "service.toml"]);
    // A caller has the fault before the space is free again.
    let good = |what: &str| {
        until(&format!("calls work after {what}"), || {
            ask(&server, Version::V11, "call", "<x>7</x>").status == 200
        });
        until(&format!("nothing is left after {what}"), || files_left(&server).is_empty());
    };
    good("the start");

    let ended = ask(&server, Version::V11, "call", "<x>1</x>");
    ended.assert_fault(Version::V11, "LimitExceeded");
    assert_eq!(ended.limit(), Some("disk_reserve"), "{ended:#?}");
    good("a program that filled the disk");

    let deck = "QUFB".repeat(12 << 20);
    let refused = ask(&server, Version::V11, "call", &format!("<x>7</x><deck>{deck}</deck>"));
    refused.assert_fault(Version::V11, "StorageFull");
    good("an input that filled the disk");

    let filler = data.join("filler");
    std::fs::write(&filler, vec![0; 29 << 20]).unwrap();
    for verb in ["call", "spawn"] {
        let refused = ask(&server, Version::V11, verb, "<x>7</x>");
        refused.assert_fault(Version::V11, "StorageFull");
        assert_eq!(refused.limit(), Some("disk_reserve"), "{refused:#?}");
    }
    std::fs::remove_file(&filler).unwrap();
    good("a full disk");
    server.stop();
}

#[test]
fn a_caller_who_hangs_up_finds_the_job_by_its_key_and_it_ran_once() {
    let server = Server::of_script(
        "echo run >> DIR/runs; until [ -e DIR/go ]; do sleep 0.05; done; echo $1",
        &["[in val x:int]", ">", "[out file y:int]"],
    );
    for version in VERSIONS {
        let _ = std::fs::remove_file(server.path("go"));
        let _ = std::fs::remove_file(server.path("runs"));
        let key = format!("key-{version:?}");
        let message =
            |x: &str| version.envelope(&key_header(&key), &wrapper("call", &format!("<x>{x}</x>")));
        let start = |message: &str| {
            let mut stream = connect(&server);
            let media_type =
                if version == Version::V11 { "text/xml" } else { "application/soap+xml" };
            let fields = format!("Content-Length: {}\r\n", message.len());
            stream.write_all(head(media_type, &fields).as_bytes()).unwrap();
            stream.write_all(message.as_bytes()).unwrap();
            stream
        };
        let first = start(&message("5"));
        until("it runs", || server.runs() == 1);
        drop(first);
        // One more hangs up while it waits for the same job.
        drop(start(&message("5")));
        post(&server, version, &message("6")).assert_fault(version, "KeyConflict");
        let waiting = std::thread::scope(|scope| {
            let again = scope.spawn(|| post(&server, version, &message("5")));
            std::fs::write(server.path("go"), "").unwrap();
            again.join().unwrap()
        });
        assert_eq!((waiting.status, waiting.text("y")), (200, Some("5")), "{waiting:#?}");
        let late = post(&server, version, &message("5"));
        assert_eq!((late.status, late.text("y")), (200, Some("5")), "{late:#?}");
        assert_eq!(server.runs(), 1);
        let job = format!("<job>{}</job>", late.text("job").expect("the job in a header"));
        assert_eq!(ask(&server, version, "remove", &job).status, 200);
    }
    until("nothing is left", || files_left(&server).is_empty());
}

#[test]
fn a_thousand_idle_connections_are_in_nobodys_way() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(4096).max(soft), hard).unwrap();
    let server = server(&[]);
    let idle: Vec<TcpStream> = (0..1000)
        .map(|n| {
            let mut stream = connect(&server);
            match n % 3 {
                0 => {}
                1 => stream.write_all(b"POST /test HTTP/1.1\r\nHos").unwrap(),
                _ => {
                    stream.write_all(head("text/xml", "Content-Length: 9\r\n").as_bytes()).unwrap();
                }
            }
            stream
        })
        .collect();
    let open = |server: &Server| -> u64 {
        let metrics = get(server, "/metrics").body;
        let line = metrics.lines().find(|line| line.starts_with("fishplate_connections "));
        line.unwrap().rsplit(' ').next().unwrap().parse().unwrap()
    };
    until("all are accepted", || open(&server) > 1000);
    assert_unharmed(&server, "idle connections");
    drop(idle);
    until("all are gone", || open(&server) == 1);
}

#[test]
fn idle_and_half_sent_requests_are_let_go() {
    let server = server(&["--limit", "header_timeout=1s"]);
    for sent in ["", "POST /test HTTP/1.1\r\nHost: localhost\r\nContent-"] {
        let mut stream = connect(&server);
        stream.write_all(sent.as_bytes()).unwrap();
        let begun = Instant::now();
        let said: Option<Answer> = try_answer(&mut stream);
        assert!(said.is_none_or(|answer| answer.status == 408 || answer.status == 400));
        assert!(begun.elapsed() < Duration::from_secs(50), "it was held open");
    }
    assert_unharmed(&server, "half a request");
}
