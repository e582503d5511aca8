//! `init`: starts a rank of a communication domain (papers 001 and 002: `run`, `init`), as a job in a place that was reserved.

use std::net::IpAddr;

use fishplate_contract::interface::rank_parameters;
use fishplate_contract::{Argument, Call, Fault, FaultCode, JobId, Signature, lexical};
use fishplate_jobs::engine::new_id;
use fishplate_ranks::launch::TransportKind;
use fishplate_ranks::transport::tls::CA_FILE;
use fishplate_ranks::{Credential, DomainId};

use super::perform::{note_session, work};
use super::provider::no_operation;
use super::scalars::Scalars;
use crate::domains::{EnteredRank, NewRank};
use crate::host::{Host, ServiceEntry};

/// Starts a rank; its job.
pub(super) async fn init(
    host: &Host,
    service: &ServiceEntry,
    mut call: Call,
) -> Result<JobId, Fault> {
    if service.provider.ranks().is_none() {
        return Err(no_operation(&call.operation));
    }
    if call.options.key.is_some() {
        let what = "a rank takes no idempotency key: its domain and its number are the key, and start one job only; \
                    leave it out";
        return Err(Fault::new(FaultCode::InvalidValue, what).parameter("key"));
    }
    let signature = Signature { inputs: rank_parameters().into(), outputs: Vec::new() };
    let is_ours = |argument: &mut Argument| signature.input(&argument.name).is_some();
    let ours: Vec<Argument> = call.arguments.extract_if(.., is_ours).collect();
    let new = new_rank(&Scalars::accept(&signature, ours)?, &host.settings.rank_addresses)?;
    let (owner, session, name) =
        (call.principal.clone(), call.options.session, call.service.clone());
    // Known before it is accepted: a caller who hangs up meanwhile finds it.
    let job = new_id()?;
    host.domains.check_rank(new.domain, new.rank, &host.engine).await?;
    let environment = host.domains.enter(&new, &owner, (&name, job)).await?;
    let entered = EnteredRank::new(&host.domains, &new, job);
    let mut work = work(host, service, call).await?;
    if let Some(library) = &host.settings.mpi_library {
        let directory = host.domains.libraries(library).map_err(|error| {
            tracing::error!(%error, "programs can't be led to the MPI library");
            let what = "the MPI library can't be had here; the server's log has more";
            Fault::new(FaultCode::Internal, what)
        })?;
        service.provider.lead_to_libraries(&mut work.plan, &directory);
    }
    for (name, value) in environment.variables() {
        let value = value.into_string().map_err(|_| {
            Fault::new(FaultCode::Internal, "the data directory's name is not UTF-8")
        })?;
        work.plan.environment.insert(name.to_owned(), value);
    }
    if let Some(file) = host.settings.rank_ca.as_ref().and_then(|file| file.to_str()) {
        work.plan.environment.insert(CA_FILE.to_owned(), file.to_owned());
    }
    work.domain = Some(new.domain.to_string());
    // From here on it may be started, though the caller hangs up.
    host.engine.submit_as(job, work, || entered.keep()).await?;
    note_session(host, session, &owner, name, job);
    Ok(job)
}

/// What is to be started; `all` are the addresses of ranks that others reach directly.
fn new_rank(given: &Scalars, all: &[IpAddr]) -> Result<NewRank, Fault> {
    let wrong =
        |name: &str, what: String| Fault::new(FaultCode::InvalidValue, what).parameter(name);
    let number = |name: &str| {
        let number: Option<u32> =
            given.text(name).and_then(|text| lexical::trimmed(text).parse().ok());
        number.ok_or_else(|| wrong(name, format!("{name} is a number from 0")))
    };
    let (rank, ranks) = (number("rank")?, number("ranks")?);
    if rank >= ranks {
        return Err(wrong("rank", format!("rank {rank} is none of {ranks}: ranks begin with 0")));
    }
    // Not shown, though it is wrong.
    let credential: Option<Credential> =
        given.text("credential").and_then(|text| lexical::trimmed(text).parse().ok());
    let credential = credential
        .ok_or_else(|| wrong("credential", "a credential is 64 hexadecimal digits".to_owned()))?;
    // The parameter accepts no other names.
    let transport = given.text("transport").and_then(TransportKind::from_name);
    let transport = transport.unwrap_or_default();
    let direct =
        given.text("direct").is_some_and(|text| matches!(lexical::trimmed(text), "true" | "1"));
    let addresses = if direct { all.to_vec() } else { Vec::new() };
    Ok(NewRank { domain: domain(given)?, rank, ranks, credential, transport, addresses })
}

/// The domain that is meant.
///
/// # Errors
/// It is none.
pub(crate) fn domain(given: &Scalars) -> Result<DomainId, Fault> {
    let text = given.text("domain").unwrap_or_default();
    lexical::trimmed(text).parse().map_err(|needed| {
        let what = format!("{:?} is no domain's ID: {needed}", lexical::shortened(text));
        Fault::new(FaultCode::InvalidValue, what).parameter("domain")
    })
}
