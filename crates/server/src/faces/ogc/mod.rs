//! OGC API - Processes (Part 1, 18-062r2) below `PUBLIC/ogc`: each operation of a service is a process, in JSON over HTTP, for
//! tools that know no SOAP. Why and how far: docs/decisions/0030.
//!
//! Reading order: `address` (what a path means), `handle` (requests), `run` (one that runs a process), `execute` (its inputs), `input`
//! (one in JSON), `form` (inputs of a form), `given` (what is kept of them), `results` (outputs), `jobs` (their status and list),
//! `process` and `openapi` (descriptions; schemas are `formats::schema`), `links`, `problem`.

mod address;
mod bounded;
mod callback;
mod documents;
mod execute;
mod form;
mod given;
mod handle;
mod input;
mod jobs;
mod links;
mod list;
mod openapi;
mod problem;
mod process;
mod query;
mod results;
mod run;

pub use address::{OgcResource, ProcessId};
pub use callback::tell_subscribers;
pub(crate) use form::{FIELD_BOX, FIELD_URL, is_free_text};
pub(crate) use given::{GivenInput, GivenInputs, GivenValue};
pub use handle::answer;
pub(crate) use jobs::{CallersJob, given_to};
pub(crate) use problem::reply as refused;
pub(crate) use query::prefers_page;
