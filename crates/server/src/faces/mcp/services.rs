//! The services of which a caller may know, called in the caller's name.

use std::net::IpAddr;
use std::sync::Arc;

use fishplate_contract::{Principal, Verb};
use fishplate_mcp::{OperationName, ServiceTools, Services};

use crate::caller::LocalCaller;
use crate::host::{Host, ServiceEntry};

pub(super) struct HostServices {
    pub(super) host: Arc<Host>,
    pub(super) caller: Principal,
    /// From where the caller calls: tools are called in tasks of their own, which know nothing of the request.
    pub(super) address: Option<IpAddr>,
}

impl HostServices {
    fn known(&self) -> impl Iterator<Item = &Arc<ServiceEntry>> {
        let known = self.host.services_for(&self.caller).filter(|entry| !entry.is_built_in());
        known.filter(|entry| self.caller.is_for(&entry.service().name))
    }
}

impl Services for HostServices {
    fn operations(&self) -> Vec<OperationName> {
        let of = |entry: &Arc<ServiceEntry>| {
            let service = entry.service().name.clone();
            let calls = entry.interface.verbs.iter().filter(|it| it.verb == Verb::Call);
            let named = calls.map(|it| OperationName {
                service: service.clone(),
                operation: it.operation.clone(),
            });
            named.collect::<Vec<_>>()
        };
        self.known().flat_map(of).collect()
    }

    fn service(&self, name: &str) -> Option<ServiceTools> {
        let entry = self.known().find(|entry| entry.service().name == name)?;
        let caller = LocalCaller::new(&self.host, name, self.caller.clone()).ok()?;
        let caller = caller.with_address(self.address);
        let service = entry.service();
        Some(ServiceTools {
            title: service.title.clone(),
            documentation: service.documentation.clone(),
            verbs: entry.interface.verbs.clone(),
            takes_options: true,
            caller: Arc::new(caller),
        })
    }
}
