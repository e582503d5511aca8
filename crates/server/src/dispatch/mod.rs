//! What every face asks for, done in one place: a typed request in, a typed reply out, and no protocol
//! in either.
//!
//! Reading order:
//!
//! - [`request`]: what is asked for, and what comes back
//! - [`authorise`]: whether whoever asks may
//! - [`provider`]: what runs the operations of a service
//! - [`perform`]: what each verb does; [`init`]: how a rank is started; [`event`]: the line of the log that tells of it
//! - [`job_list`]: a caller's jobs of several services at once
//! - [`outputs`]: the outputs of a job for who looks at them
//! - [`report`]: what is told of jobs, as the fields that the interface declares
//! - [`usage`]: what a call that this process answers uses
//! - [`scalars`]: the arguments of what is asked of the server itself

pub mod authorise;
mod event;
pub(crate) mod init;
pub mod job_list;
pub(crate) mod outputs;
pub mod perform;
pub mod provider;
pub mod report;
pub mod request;
pub mod scalars;
pub mod usage;

#[cfg(test)]
mod tests;
