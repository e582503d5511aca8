//! The server's own services: they have no program and no jobs, and each of their calls is answered here.

use fishplate_contract::{Argument, Call, Interface, Operation, Service};

use crate::dispatch::provider::{Provider, ProviderFuture, calls_only, no_operation};
use crate::dispatch::usage::CallUsage;
use crate::host::Host;
use crate::memory::MemoryReservation;

/// Answers a call of one of the service's operations.
type Answer = for<'a> fn(&'a Host, &'a Operation, Call) -> ProviderFuture<'a, Vec<Argument>>;

/// One of them.
#[derive(Debug)]
pub struct BuiltIn {
    pub(super) service: Service,
    pub(super) answer: Answer,
}

impl Provider for BuiltIn {
    fn service(&self) -> &Service {
        &self.service
    }

    fn interface(&self) -> Interface {
        calls_only(&self.service)
    }

    fn is_built_in(&self) -> bool {
        true
    }

    fn about_jobs(&self) -> Option<&str> {
        None
    }

    fn answers(&self, _: &Call) -> bool {
        true
    }

    fn answer<'a>(
        &'a self,
        host: &'a Host,
        call: Call,
        _: &'a CallUsage,
        _: &'a mut MemoryReservation,
    ) -> ProviderFuture<'a, Vec<Argument>> {
        match self.service.operation(&call.operation) {
            Some(operation) => (self.answer)(host, operation, call),
            None => Box::pin(async move { Err(no_operation(&call.operation)) }),
        }
    }
}
