//! A stager that moves nothing anywhere: it has what it was told to have, fails as it was told to,
//! and waits until it is let go. It drives the engine in tests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fishplate_contract::{DataRef, Fault, FaultCode, PlacementMethod, Principal};
use fishplate_data::Progress;
use tokio::sync::Notify;

use super::{DeliverOrder, FetchOrder, RegisterOrder, RegisteredOutput, Stager};
use crate::executor::BoxFuture;

/// The fake.
#[derive(Debug, Default)]
pub struct FakeStager {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    there: HashMap<String, Vec<u8>>,
    faults: HashMap<String, Fault>,
    unacceptable: HashMap<String, Fault>,
    held: HashMap<String, Arc<Notify>>,
    fetches: Vec<FetchOrder>,
    deliveries: Vec<DeliverOrder>,
    adoptions: Vec<RegisterOrder>,
    /// Transfers that were given up before their end.
    stopped: Vec<String>,
    discarded: Vec<String>,
}

impl FakeStager {
    /// This is at that address.
    pub fn put(&self, url: &str, bytes: &[u8]) {
        self.state().there.insert(url.to_owned(), bytes.to_vec());
    }

    /// Transfers from or to that address fail.
    pub fn fail(&self, url: &str, fault: Fault) {
        self.state().faults.insert(url.to_owned(), fault);
    }

    /// Deliveries to that address are refused from the beginning.
    pub fn refuse(&self, url: &str, fault: Fault) {
        self.state().unacceptable.insert(url.to_owned(), fault);
    }

    /// Transfers from or to that address wait, with one byte moved, until they are let go.
    pub fn hold(&self, url: &str) {
        self.state().held.insert(url.to_owned(), Arc::default());
    }

    /// Lets one transfer go that waits.
    pub fn let_go(&self, url: &str) {
        if let Some(held) = self.state().held.get(url) {
            held.notify_one();
        }
    }

    /// All orders to fetch so far.
    pub fn fetches(&self) -> Vec<FetchOrder> {
        self.state().fetches.clone()
    }

    /// All orders to deliver so far.
    pub fn deliveries(&self) -> Vec<DeliverOrder> {
        self.state().deliveries.clone()
    }

    /// All orders to adopt so far.
    pub fn adoptions(&self) -> Vec<RegisterOrder> {
        self.state().adoptions.clone()
    }

    /// Addresses of transfers that were given up before their end.
    pub fn stopped(&self) -> Vec<String> {
        self.state().stopped.clone()
    }

    /// Addresses of fetches of which nothing is to stay.
    pub fn discarded(&self) -> Vec<String> {
        self.state().discarded.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn go_to(&self, url: &str, progress: &Progress) -> Result<(), Fault> {
        let held = self.state().held.get(url).cloned();
        let mut given_up = DropNotice { stager: self, url: Some(url) };
        if let Some(held) = held {
            progress.set(1);
            held.notified().await;
        } else {
            tokio::task::yield_now().await;
        }
        given_up.url = None;
        let fault = self.state().faults.get(url).cloned();
        fault.map_or(Ok(()), Err)
    }
}

/// Notes a transfer that is dropped before its end.
struct DropNotice<'f> {
    stager: &'f FakeStager,
    url: Option<&'f str>,
}

impl Drop for DropNotice<'_> {
    fn drop(&mut self) {
        if let Some(url) = self.url {
            self.stager.state().stopped.push(url.to_owned());
        }
    }
}

impl Stager for FakeStager {
    fn fetch<'a>(
        &'a self,
        order: &'a FetchOrder,
        progress: &'a Progress,
    ) -> BoxFuture<'a, Result<PlacementMethod, Fault>> {
        Box::pin(async move {
            self.state().fetches.push(order.clone());
            self.go_to(&order.from.url, progress).await?;
            let bytes = self.state().there.get(&order.from.url).cloned();
            let bytes = bytes.ok_or_else(|| Fault::new(FaultCode::NoSuchData, "there is none"))?;
            progress.set(bytes.len() as u64);
            std::fs::write(&order.target, &bytes)
                .map_err(|error| Fault::new(FaultCode::StorageFull, error.to_string()))?;
            let linked = !order.private && bytes.len() as u64 >= order.link_size;
            Ok(if linked { PlacementMethod::Link } else { PlacementMethod::Copy })
        })
    }

    fn discard<'a>(&'a self, from: &'a DataRef, _: &'a Principal) -> BoxFuture<'a, ()> {
        self.state().discarded.push(from.url.clone());
        Box::pin(std::future::ready(()))
    }

    fn accepts(&self, to: &str) -> Result<(), Fault> {
        self.state().unacceptable.get(to).cloned().map_or(Ok(()), Err)
    }

    fn deliver<'a>(
        &'a self,
        order: &'a DeliverOrder,
        progress: &'a Progress,
    ) -> BoxFuture<'a, Result<DataRef, Fault>> {
        Box::pin(async move {
            self.state().deliveries.push(order.clone());
            self.go_to(&order.to, progress).await?;
            progress.set(order.file.len);
            Ok(DataRef { len: Some(order.file.len), ..DataRef::new(&order.to) })
        })
    }

    fn register<'a>(
        &'a self,
        order: &'a RegisterOrder,
    ) -> BoxFuture<'a, Result<RegisteredOutput, Fault>> {
        Box::pin(async move {
            self.state().adoptions.push(order.clone());
            if let Some(fault) = self.state().faults.get(&order.file.name).cloned() {
                return Err(fault);
            }
            let number = self.state().adoptions.len();
            let place = if order.session.is_some() { "session" } else { "data" };
            let url = format!("http://here.example/{place}/{number}/{}", order.file.name);
            let reference = DataRef { len: Some(order.file.len), ..DataRef::new(url) };
            let reference = order.earlier.clone().unwrap_or(reference);
            Ok(RegisteredOutput { reference, expires: None })
        })
    }
}
