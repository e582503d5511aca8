//! Outputs that are brought somewhere before the job is done: to the destination that the caller
//! named, or into the job's session. Whether that succeeds is part of its end.

use std::path::PathBuf;
use std::sync::Arc;

use fishplate_contract::{
    Fault, FaultCode, JobId, JobState, OutputForm, Principal, SessionId, Timestamp, TransferState,
};
use fishplate_data::Progress;

use super::{Active, Effect, Phase, Reactor};
use crate::completion::{Completion, DeliveredOutput, TransferResult};
use crate::engine::outcome::lacks_room;
use crate::engine::transfers::JobTransfer;
use crate::executor::Output;

/// The outputs of a job, on their way.
#[derive(Debug)]
pub(in crate::engine) struct OutgoingOutputs {
    pub(in crate::engine) job: JobId,
    pub(in crate::engine) fence: u64,
    pub(in crate::engine) service: String,
    pub(in crate::engine) owner: Principal,
    pub(in crate::engine) session: Option<SessionId>,
    pub(in crate::engine) directory: PathBuf,
    pub(in crate::engine) outputs: Vec<Output>,
    /// Where each goes that is sent, by its place among the outputs: an address, or the session.
    pub(in crate::engine) to: Vec<(usize, Option<String>)>,
}

/// A job whose outputs are being sent.
#[derive(Debug)]
pub(super) struct JobDelivery {
    end: Box<Completion>,
    pending: Vec<OutgoingOutput>,
}

/// An output that is sent.
#[derive(Debug)]
struct OutgoingOutput {
    /// Its place among the outputs.
    at: usize,
    /// Where there is no room for it, it goes by value.
    by_value: bool,
    /// As it is told of, if it leaves the server.
    delivery: Option<JobTransfer>,
    under_way: bool,
}

impl JobDelivery {
    /// What its deliveries have come to.
    pub(super) fn transfers(&self) -> Vec<TransferResult> {
        self.pending.iter().filter_map(|it| Some(it.delivery.as_ref()?.moved())).collect()
    }

    /// The end of the job, once nothing is sent any more; with why, if not all was.
    fn conclude(mut self, unsent: Option<(JobState, Fault)>, now: Timestamp) -> Box<Completion> {
        self.pending.iter().filter_map(|it| it.delivery.as_ref()).for_each(JobTransfer::give_up);
        self.end.transfers.extend(self.transfers());
        self.end.ended = now.0;
        if let Some((state, fault)) = unsent {
            self.end.fail_unsent(state, fault);
        }
        self.end
    }
}

impl Reactor {
    pub(super) fn judged(
        &mut self,
        job: JobId,
        fence: u64,
        end: Box<Completion>,
        now: Timestamp,
    ) -> Vec<Effect> {
        let reference_size = self.reference_size;
        let Some(active) = self.under(job, fence) else { return Vec::new() };
        if !matches!(active.phase, Phase::Judging) {
            return Vec::new();
        }
        let to = destinations(&end, reference_size);
        if to.is_empty() {
            return vec![active.write_end(end)];
        }
        let shipment = Arc::new(OutgoingOutputs {
            job,
            fence,
            service: active.claim.service.clone(),
            owner: active.claim.owner.clone(),
            session: end.answer.session(),
            directory: active.order.directory.clone(),
            outputs: end.outputs().to_vec(),
            to,
        });
        let mut effects = Vec::new();
        let pending = shipment.to.iter().enumerate().map(|(number, (at, to))| {
            let output = &shipment.outputs[*at];
            let delivery = to
                .as_ref()
                .map(|to| JobTransfer::of_output(&output.name, to, output.len().unwrap_or(0)));
            let progress = delivery.as_ref().map_or_else(Progress::default, JobTransfer::begin);
            effects.push(Effect::Send(Arc::clone(&shipment), number, progress));
            let by_value = to.is_none() && end.answer.form(&output.name) == OutputForm::Auto;
            OutgoingOutput { at: *at, by_value, delivery, under_way: true }
        });
        let pending = pending.collect();
        active.phase = Phase::Sending(Box::new(JobDelivery { end, pending }));
        if active.kill { active.stop_sending(now) } else { effects }
    }

    pub(super) fn sent(
        &mut self,
        job: JobId,
        fence: u64,
        number: usize,
        sent: Result<DeliveredOutput, Fault>,
        now: Timestamp,
    ) -> Vec<Effect> {
        let Some(active) = self.under(job, fence) else { return Vec::new() };
        let Phase::Sending(sending) = &mut active.phase else { return Vec::new() };
        let Some(outgoing) = sending.pending.get_mut(number) else { return Vec::new() };
        if !std::mem::take(&mut outgoing.under_way) {
            return Vec::new();
        }
        match sent {
            Ok(sent) => {
                if let Some(delivery) = &outgoing.delivery {
                    delivery.progress.enter(TransferState::Done);
                }
                sending.end.sent.push(sent);
            }
            Err(fault) if outgoing.by_value && lacks_room(&fault) => {}
            Err(fault) => {
                if let Some(delivery) = &outgoing.delivery {
                    delivery.progress.enter(TransferState::Failed);
                }
                let name = sending.end.outputs().get(outgoing.at).map(|output| output.name.clone());
                let fault = fault.parameter(name.unwrap_or_default());
                return active.end_sending(Some((JobState::Failed, fault)), now);
            }
        }
        match sending.pending.iter().any(|it| it.under_way) {
            true => Vec::new(),
            false => active.end_sending(None, now),
        }
    }
}

impl Active {
    /// Somebody asked for the job's end.
    pub(super) fn stop_sending(&mut self, now: Timestamp) -> Vec<Effect> {
        let why = "the job was killed on request while its outputs were being sent";
        let fault = Fault::new(FaultCode::JobKilled, why);
        self.end_sending(Some((JobState::Killed, fault)), now)
    }

    fn end_sending(&mut self, unsent: Option<(JobState, Fault)>, now: Timestamp) -> Vec<Effect> {
        let Phase::Sending(sending) = std::mem::replace(&mut self.phase, Phase::Closing) else {
            return Vec::new();
        };
        let stop = unsent.is_some().then_some(Effect::Stop(self.order.job, self.order.fence));
        let end = self.write_end(sending.conclude(unsent, now));
        stop.into_iter().chain([end]).collect()
    }
}

/// Where outputs of a job that ended well are sent.
fn destinations(end: &Completion, reference_size: u64) -> Vec<(usize, Option<String>)> {
    if end.state() != JobState::Done {
        return Vec::new();
    }
    let answer = &end.answer;
    let destination = |(at, output): (usize, &Output)| {
        let len = output.len()?;
        if let Some(to) = answer.destination(&output.name) {
            return Some((at, Some(to.to_owned())));
        }
        let stays =
            answer.session.is_some() && answer.by_reference(&output.name, len, reference_size);
        stays.then_some((at, None))
    };
    end.outputs().iter().enumerate().filter_map(destination).collect()
}

impl Completion {
    /// The program ended well, but its outputs were not sent, all of them: then it is no success.
    fn fail_unsent(&mut self, state: JobState, fault: Fault) {
        self.unsent = true;
        state.name().clone_into(&mut self.state);
        let message = match state {
            JobState::Failed => format!(
                "{}; the program ended well, and results gives the outputs in another way, if they \
                 are chosen again",
                fault.message
            ),
            _ => fault.message,
        };
        self.fault = Some((fault.code.name().to_owned(), message));
        self.parameter = fault.parameter;
        self.refused_by = fault.limit.map(|limit| (limit.name, limit.value));
    }
}
