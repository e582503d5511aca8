//! How an output is brought where the reactor says: to the destination that the caller named, or into
//! the job's session.

use std::path::Path;
use std::sync::Arc;

use fishplate_contract::{DataRef, Fault, FaultCode};
use fishplate_data::Progress;

use super::EngineInner;
use super::outcome::no_references;
use super::output::{self, CachedOutputs};
use super::reactor::OutgoingOutputs;
use crate::completion::DeliveredOutput;
use crate::executor::Output;
use crate::stager::{DeliverOrder, OutputFile, RegisterOrder};

impl EngineInner {
    /// Sends an output, by its number among those that are sent.
    pub(super) async fn send(
        &self,
        shipment: &Arc<OutgoingOutputs>,
        number: usize,
        progress: &Progress,
    ) -> Result<DeliveredOutput, Fault> {
        let OutgoingOutputs { directory, outputs, job, .. } = &**shipment;
        let (at, to) = &shipment.to[number];
        let output = &outputs[*at];
        if to.is_some()
            && let Some(sent) = sent_before(directory, output).await
        {
            // By an engine that was killed before it could write the job's end.
            progress.set(sent.len.unwrap_or(0));
            return Ok(sent);
        }
        let file = file_of(shipment, *at, to.is_none()).await?;
        let stager = self.stager.get().ok_or_else(no_references)?;
        let (job, owner) = (*job, shipment.owner.clone());
        let Some(to) = to else {
            let order =
                RegisterOrder { job, owner, file, session: shipment.session, earlier: None };
            return Ok(sent(output, stager.register(&order).await?.reference));
        };
        let to = if to.ends_with('/') { format!("{to}{}", file.name) } else { to.clone() };
        let subject = format!("{}: {}", shipment.service, output.name);
        let order = DeliverOrder { job, owner, file, to, subject };
        let delivered = stager.deliver(&order, progress).await?;
        Ok(remember(directory, sent(output, delivered)).await)
    }
}

fn sent(output: &Output, reference: DataRef) -> DeliveredOutput {
    DeliveredOutput {
        name: output.name.clone(),
        label: output.label.clone(),
        url: reference.url,
        len: reference.len,
        digest: reference.digest.map(|digest| digest.to_string()),
        expires: None,
    }
}

async fn file_of(
    shipment: &Arc<OutgoingOutputs>,
    at: usize,
    in_session: bool,
) -> Result<OutputFile, Fault> {
    let shipment = Arc::clone(shipment);
    let file = move || output::file(&shipment.directory, &shipment.outputs, at, in_session);
    match tokio::task::spawn_blocking(file).await {
        Ok(Ok(file)) => Ok(file),
        Ok(Err(error)) => Err(output::unreadable(&error)),
        Err(_) => Err(Fault::new(FaultCode::Internal, "the server is ending")),
    }
}

async fn sent_before(directory: &Path, output: &Output) -> Option<DeliveredOutput> {
    let directory = directory.to_owned();
    let known = tokio::task::spawn_blocking(move || CachedOutputs::Delivered.read(&directory));
    let known = known.await.unwrap_or_default();
    known.into_iter().find(|sent| sent.name == output.name && sent.label == output.label)
}

/// Remembers what was delivered, so that it is not delivered again if this process is killed
/// before the job's end is written.
async fn remember(directory: &Path, sent: DeliveredOutput) -> DeliveredOutput {
    let (directory, noted) = (directory.to_owned(), sent.clone());
    let note = move || CachedOutputs::Delivered.note(&directory, noted);
    let _ = tokio::task::spawn_blocking(note).await;
    sent
}
