//! What a small SOAP call of a quick function costs between hyper and the function and back: no
//! socket, no HTTP parser. Time a call, and, as times depend on the machine, made to be counted:
//!
//! ```text
//! cargo bench -p fishplate-server --bench small_call
//! valgrind --tool=callgrind target/release/deps/small_call-* 2000
//! ```

#![expect(clippy::print_stdout, reason = "a benchmark tells its figures")]

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use fishplate_contract::{Principal, SystemClock};
use fishplate_jobs::engine::{self, Engine};
use fishplate_jobs::executor::fake::FakeExecutor;
use fishplate_jobs::function::builtin;
use fishplate_jobs::function::plan::WorkerProgram;
use fishplate_jobs::store::memory::MemoryStore;
use fishplate_server::host::{Host, PublicAddress};
use fishplate_server::http::respond;
use fishplate_server::providers::functions::FunctionProvider;
use fishplate_server::settings::{Limits, Settings};
use fishplate_server::spool::SpoolDirectory;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;

/// As in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CALLS: u32 = 200_000;

const ENVELOPE: &str = "<S:Envelope xmlns:S=\"http://schemas.xmlsoap.org/soap/envelope/\"><S:Body>\
    <t:add xmlns:t=\"urn:fishplate:matrix\"><t:x>40</t:x><t:y>2</t:y></t:add></S:Body></S:Envelope>";

fn main() {
    let calls = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(CALLS);
    let data = tempfile::tempdir().expect("a directory");
    let host = host(data.path());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let answer = call(&host).await;
        assert!(answer.ends_with(b"<w:sum>42</w:sum></w:addResponse></soap:Body></soap:Envelope>"));
        let begun = Instant::now();
        for _ in 0..calls {
            call(&host).await;
        }
        println!("{:.2} us a call", begun.elapsed().as_secs_f64() / f64::from(calls) * 1e6);
    });
}

async fn call(host: &Arc<Host>) -> Bytes {
    let request = Request::post("/matrix")
        .header("Host", "127.0.0.1:8080")
        .header("Content-Type", "text/xml; charset=utf-8")
        .header("SOAPAction", "\"\"")
        .header("Content-Length", ENVELOPE.len())
        .body(Full::new(Bytes::from_static(ENVELOPE.as_bytes())))
        .expect("a request");
    let reply = respond(host, request, Principal::anonymous()).await;
    reply.into_body().collect().await.expect("an answer").to_bytes()
}

fn host(data: &std::path::Path) -> Arc<Host> {
    let engine = Engine::new(
        engine::Settings::new(data.to_owned()),
        Arc::new(MemoryStore::default()),
        Arc::new(FakeExecutor::new(1)),
        Arc::new(SystemClock),
    );
    let worker = WorkerProgram {
        program: "/bin/false".into(),
        arguments: Vec::new(),
        environment: data.join("environment.json"),
    };
    let functions = builtin::NAMES.iter().filter_map(|name| builtin::named(name));
    Arc::new(Host::new(
        Settings::new("http://localhost"),
        PublicAddress::Below,
        engine.expect("an engine"),
        fishplate_server::assembly::data(&Limits::new(data.to_owned(), "")).expect("a pool"),
        SpoolDirectory::open(data, 0).expect("a spool"),
        worker,
        functions.map(|functions| Box::new(FunctionProvider::new(functions)) as _).collect(),
    ))
}
