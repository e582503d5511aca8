//! A service over HTTP as a [`Caller`].

use fishplate_contract::{
    Argument, CallError, CallFuture, CallOptions, Caller, Fault, FaultCode, JobFilter, JobId,
    JobPage, JobReport, KillResult, LogPage, LogStream, OutputChoice, ProgressCallback, Results,
};
use fishplate_wire::SoapReply;

use crate::error::Error;
use crate::service::Service;
use crate::settings::Options;

impl Service {
    /// The service as a caller, whose exchanges have these options, but for those of each call.
    pub fn with(&self, options: Options) -> impl Caller + use<> {
        WithOptions { service: self.clone(), options }
    }
}

#[derive(Clone)]
struct WithOptions {
    service: Service,
    options: Options,
}

impl WithOptions {
    fn options(&self, call: CallOptions) -> Options {
        Options { call, ..self.options.clone() }
    }
}

fn results(SoapReply { outputs, job, .. }: SoapReply) -> Results {
    Results { outputs, job }
}

impl Caller for WithOptions {
    fn call<'a>(
        &'a self,
        operation: &'a str,
        arguments: Vec<Argument>,
        options: CallOptions,
    ) -> CallFuture<'a, Results> {
        Box::pin(async move {
            Ok(results(self.service.call(operation, arguments, &self.options(options)).await?))
        })
    }

    fn spawn<'a>(
        &'a self,
        operation: &'a str,
        arguments: Vec<Argument>,
        options: CallOptions,
    ) -> CallFuture<'a, JobId> {
        Box::pin(async move {
            Ok(self.service.spawn(operation, arguments, &self.options(options)).await?)
        })
    }

    fn results<'a>(
        &'a self,
        operation: &'a str,
        job: JobId,
        outputs: Vec<OutputChoice>,
    ) -> CallFuture<'a, Results> {
        let options = self.options(CallOptions { outputs, ..CallOptions::default() });
        Box::pin(async move { Ok(results(self.service.results(operation, job, &options).await?)) })
    }

    fn status(&self, job: JobId) -> CallFuture<'_, JobReport> {
        Box::pin(async move { Ok(self.service.status(job).await?) })
    }

    fn wait<'a>(&'a self, job: JobId, progress: ProgressCallback<'a>) -> CallFuture<'a, JobReport> {
        Box::pin(async move { Ok(self.service.wait(job, progress).await?) })
    }

    fn kill(&self, job: JobId) -> CallFuture<'_, KillResult> {
        Box::pin(async move { Ok(self.service.kill(job).await?) })
    }

    fn log(&self, job: JobId, stream: LogStream, offset: u64) -> CallFuture<'_, LogPage> {
        Box::pin(async move { Ok(self.service.log(job, stream, offset).await?) })
    }

    fn jobs(&self, filter: JobFilter) -> CallFuture<'_, JobPage> {
        Box::pin(async move { Ok(self.service.jobs(&filter).await?) })
    }

    fn remove(&self, job: JobId) -> CallFuture<'_, ()> {
        Box::pin(async move { Ok(self.service.remove(job).await?) })
    }
}

impl From<Error> for CallError {
    /// What is seen from the description already has the fault that the service would have answered.
    fn from(error: Error) -> Self {
        let would = |code| Some(Fault::new(code, error.to_string()));
        let fault = match &error {
            Error::Fault(fault) => Some(fault.clone()),
            Error::UnknownOperation { .. } => would(FaultCode::UnknownOperation),
            Error::UnknownParameter { name, .. } | Error::RepeatedParameter { name, .. } => {
                would(FaultCode::UnexpectedParameter).map(|fault| fault.parameter(name))
            }
            Error::MissingParameter { name, .. } => {
                would(FaultCode::MissingParameter).map(|fault| fault.parameter(name))
            }
            _ => None,
        };
        Self::new(fault, error)
    }
}
