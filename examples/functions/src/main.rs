//! A program of its own that offers Rust functions as a web service: their parameters' types are
//! the WSDL's, calls run in this process, and what is spawned is a job that outlives it.
//!
//! ```text
//! cargo run --package fishplate-example-functions -- 127.0.0.1:8080 ./data
//! fishplate usage http://127.0.0.1:8080/statistics
//! fishplate call http://127.0.0.1:8080/statistics --operation mean 'values=[1, 2, 6]'
//! ```

#![expect(clippy::print_stdout, reason = "it tells where it is")]

use std::error::Error;
use std::io::{BufRead as _, BufReader};

use fishplate_contract::{Fault, FaultCode, Payload};
use fishplate_jobs::engine::RunMode;
use fishplate_jobs::executor::local::CgroupUse;
use fishplate_jobs::function::{Context, FunctionEntry, Functions, Matrix, PayloadReader};
use fishplate_server::assembly::{self, Backends, StoreCheck};
use fishplate_server::current::CurrentHost;
use fishplate_server::host::PublicAddress;
use fishplate_server::settings::Limits;
use fishplate_server::{http, worker};

/// What callers see. Made anew in each process: a job of a function is a process of this program.
fn statistics() -> Functions {
    Functions::new("statistics", "urn:example:statistics")
        .title("Statistics")
        .documentation("Numbers about numbers.")
        // As little as it takes: names for the parameters and for what the closure gives.
        .function("mean", ["values"], ["mean"], |values: Vec<f64>| mean(&values))
        // And with all there is to say.
        .with(
            FunctionEntry::new("columns", ["table", "scale"], ["means", "rows"], |table, scale| {
                columns(&table, scale)
            })
            .documentation("The mean of each column of a table.")
            .input("scale", |scale| scale.default("1").help("What the means are multiplied by."))
            .output("rows", |rows| rows.help("How many rows the table has."))
            .repeatable(),
        )
        // A file, read as it comes from wherever it is; for long work there is a context.
        .with(
            FunctionEntry::with_context("lines", ["file"], ["count"], |context: &Context, file| {
                lines(context, &file)
            })
            .documentation("Counts the lines of a file."),
        )
}

#[expect(clippy::cast_precision_loss, reason = "nobody has 2^52 values")]
fn mean(values: &[f64]) -> Result<f64, Fault> {
    if values.is_empty() {
        let what = "there is no mean of no values";
        return Err(Fault::new(FaultCode::ValueOutOfRange, what).parameter("values"));
    }
    Ok(values.iter().sum::<f64>() / values.len() as f64)
}

fn columns(table: &Matrix<f64>, scale: f64) -> Result<(Vec<f64>, i64), Fault> {
    let [rows, columns] = table.shape();
    let column = |at: usize| table.data().iter().copied().skip(at).step_by(columns);
    let means = (0..columns).map(|at| Ok(scale * mean(&column(at).collect::<Vec<_>>())?));
    let rows = i64::try_from(rows).unwrap_or(i64::MAX);
    Ok((means.collect::<Result<_, Fault>>()?, rows))
}

fn lines(context: &Context, file: &Payload) -> Result<i64, Fault> {
    let broken = |error: std::io::Error| Fault::new(FaultCode::Internal, error.to_string());
    let whole = file.len().unwrap_or_default().max(1);
    let mut reader = BufReader::new(PayloadReader::new(file)?);
    let (mut count, mut read, mut line) = (0, 0, Vec::new());
    loop {
        line.clear();
        match reader.read_until(b'\n', &mut line).map_err(broken)? {
            0 => return Ok(count),
            more => read += more as u64,
        }
        count += 1;
        #[expect(clippy::cast_precision_loss, reason = "a share need not be exact")]
        context.progress(read as f64 / whole as f64);
        if context.is_cancelled() {
            return Err(Fault::new(FaultCode::JobKilled, "nobody waits for it any more"));
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // First of all: the supervisor of jobs, and jobs of functions, are processes of this program.
    worker::run_if_child(|| vec![statistics()]);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, data] = &arguments[..] else {
        return Err("usage: statistics ADDRESS DATA".into());
    };
    tokio::runtime::Runtime::new()?.block_on(async {
        let listening = http::bind(address).await?;
        let data = std::path::absolute(data)?;
        let limits = Limits::new(data, format!("http://{}", listening.address()));
        let data = assembly::data(&limits)?;
        let backends = Backends::local(&limits, CgroupUse::Auto, StoreCheck::All)?;
        let engine = assembly::engine(&limits, backends, &data)?;
        let services = vec![statistics()];
        let host = assembly::host(
            limits,
            PublicAddress::Below,
            engine.clone(),
            data,
            Vec::new(),
            services,
        )?;
        for hosted in host.services().filter(|hosted| !hosted.is_built_in()) {
            println!("{} {}", hosted.service().name, hosted.url);
        }
        tokio::spawn(async move { engine.run(RunMode::Dropped).await });
        listening.serve(CurrentHost::new(host)).await;
        Ok(())
    })
}
