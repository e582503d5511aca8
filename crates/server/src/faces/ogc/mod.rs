//! OGC API - Processes (Part 1, 18-062r2) below `PUBLIC/ogc`: each operation of a service is a process, in JSON over HTTP, for
//! tools that know no SOAP. Why and how far: docs/decisions/0030.
//!
//! Reading order: `address` (what a path means), `handle` (requests), `execute` (a request's inputs), `input` (one input),
//! `results` (outputs), `jobs` (their status and list), `process` and `openapi` (descriptions; schemas are `formats::schema`),
//! `links`, `problem`.

mod address;
mod bounded;
mod callback;
mod documents;
mod execute;
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

pub use address::{OGC, OgcResource};
pub use callback::resume as resume_callbacks;
pub use handle::answer;
pub(crate) use problem::reply as refused;
