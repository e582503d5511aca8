//! What a path below `PUBLIC/ogc` means.

use fishplate_contract::interface::{OGC, SOLE_OPERATION};

/// What a path below the public URL means to this face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OgcResource<'p> {
    /// `ogc`: what there is.
    Landing,
    /// `ogc/conformance`.
    Conformance,
    /// `ogc/openapi.json`.
    OpenApi,
    /// `ogc/processes`.
    Processes,
    /// `ogc/processes/ID`.
    Process(ProcessId<'p>),
    /// `ogc/processes/ID/execution`.
    Execution(ProcessId<'p>),
    /// `ogc/jobs`.
    Jobs,
    /// `ogc/jobs/ID`.
    Job(&'p str),
    /// `ogc/jobs/ID/results`.
    Results(&'p str),
    /// `ogc/jobs/ID/results/OUTPUT`.
    Output(&'p str, &'p str),
    /// `ogc/jobs/ID/log`.
    Log(&'p str),
    /// `ogc/jobs/ID/events`: the job as it goes on.
    Events(&'p str),
    /// `ogc/jobs/ID/kill`, for forms.
    Kill(&'p str),
    /// `ogc/jobs/ID/remove`, for forms.
    Remove(&'p str),
    /// `ogc/sessions/ID/close`, for forms.
    CloseSession(&'p str),
    /// None of these: 404.
    Unknown,
}

impl<'p> OgcResource<'p> {
    /// The resource of a path without slashes at its ends, if it is one of ours.
    pub fn of(path: &'p str) -> Option<Self> {
        let mut segments = path.split('/');
        if segments.next() != Some(OGC) {
            return None;
        }
        let segments: Vec<&str> = segments.collect();
        Some(match segments[..] {
            [] => Self::Landing,
            ["conformance"] => Self::Conformance,
            ["openapi.json"] => Self::OpenApi,
            ["processes"] => Self::Processes,
            ["processes", id] => Self::Process(ProcessId::of(id)),
            ["processes", id, "execution"] => Self::Execution(ProcessId::of(id)),
            ["jobs"] => Self::Jobs,
            ["jobs", id] => Self::Job(id),
            ["jobs", id, "results"] => Self::Results(id),
            ["jobs", id, "results", output] => Self::Output(id, output),
            ["jobs", id, "log"] => Self::Log(id),
            ["jobs", id, "events"] => Self::Events(id),
            ["jobs", id, "kill"] => Self::Kill(id),
            ["jobs", id, "remove"] => Self::Remove(id),
            ["sessions", id, "close"] => Self::CloseSession(id),
            _ => Self::Unknown,
        })
    }

    /// The service whose description is asked for. Of all others it is asked when it is known which services they concern.
    pub fn service(&self) -> Option<&'p str> {
        match self {
            Self::Process(id) | Self::Execution(id) => Some(id.service),
            _ => None,
        }
    }
}

/// The name of a process: `SERVICE`, or `SERVICE:OPERATION` if that is not [`SOLE_OPERATION`]. (No name of a service has a
/// colon: it is an `NCName`.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessId<'p> {
    /// The service.
    pub service: &'p str,
    /// Its operation.
    pub operation: &'p str,
}

impl<'p> ProcessId<'p> {
    /// As it stands in a path, where a colon may be percent-encoded (RFC 3986, section 2.2).
    pub fn of(segment: &'p str) -> Self {
        let split = [":", "%3A", "%3a"].into_iter().find_map(|colon| segment.split_once(colon));
        let (service, operation) = split.unwrap_or((segment, SOLE_OPERATION));
        Self { service, operation }
    }
}

impl std::fmt::Display for ProcessId<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.operation {
            SOLE_OPERATION => f.write_str(self.service),
            operation => write!(f, "{}:{operation}", self.service),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_a_service_or_one_of_its_operations() {
        for (path, service, operation, shown) in [
            ("ogc/processes/mesh", "mesh", "call", "mesh"),
            ("ogc/processes/mesh:refine", "mesh", "refine", "mesh:refine"),
            ("ogc/processes/mesh%3Arefine", "mesh", "refine", "mesh:refine"),
            ("ogc/processes/mesh:call", "mesh", "call", "mesh"),
        ] {
            let resource = OgcResource::of(path).unwrap();
            assert_eq!(resource.service(), Some(service));
            let OgcResource::Process(id) = resource else { panic!("{path}: {resource:?}") };
            assert_eq!(
                (id.service, id.operation, id.to_string().as_str()),
                (service, operation, shown)
            );
        }
    }

    #[test]
    fn only_paths_below_the_prefix_are_ours() {
        for path in ["", "ogcs", "mesh/ogc", "processes"] {
            assert_eq!(OgcResource::of(path), None, "{path}");
        }
        assert_eq!(OgcResource::of("ogc"), Some(OgcResource::Landing));
        assert_eq!(OgcResource::of("ogc/jobs/1/results/a"), Some(OgcResource::Output("1", "a")));
        assert_eq!(OgcResource::of("ogc/jobs/1/2"), Some(OgcResource::Unknown));
    }
}
