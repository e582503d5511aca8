//! QUAKE, a benchmark of dependability (paper 004, section 4): it loads, stresses, kills, watches and restarts a
//! server that speaks SOAP, any server, and says with figures whether it can be trusted.
//!
//! The parts have the paper's names: a benchmark management system ([`management`]) activates client agents
//! ([`agent`], [`load`]) and an agent on the host of the system under test ([`system`], [`stress`], [`fault`]), merges
//! what each of them saw ([`record`]), has it watched ([`watchdog`]), judges it ([`verdict`]) and reports ([`report`]).
//!
//! Reading order:
//!
//! - [`experiment`]: what is to be done, a TOML file
//! - [`record`]: what was seen, second by second; the files of a run
//! - `random`: every random choice, from the experiment's seed
//! - [`request`]: requests from templates and from a WSDL; `check`: what a right answer is
//! - [`load`]: requests sent, answers judged, seconds told
//! - [`system`]: the processes of the system under test, and what they use
//! - [`probe`]: the watchdog's own request
//! - [`watchdog`]: whether it failed, how, since when, and what is done then
//! - [`stress`], [`fault`]: what is taken from it, and done to it
//! - [`subprocess`]: processes of ours that end with who started them
//! - [`agent`]: what does all this on its host, as the manager says
//! - [`management`]: cell after cell, from its configuration to its outcome
//! - [`audit`]: what the server has done against what its clients saw
//! - [`figures`]: what a cell comes to
//! - [`statistics`]: whether something is used up, within 95 %
//! - [`verdict`]: what can be said of a system, and what can't
//! - [`report`]: the page, the tables, the comparison of two runs
//! - [`live`]: the picture while it runs

pub mod agent;
pub mod audit;
mod check;
pub mod experiment;
pub mod fault;
pub mod figures;
pub mod live;
pub mod load;
pub mod management;
pub mod probe;
mod random;
pub mod record;
pub mod report;
pub mod request;
pub mod statistics;
pub mod stress;
pub mod subprocess;
pub mod system;
pub mod verdict;
pub mod watchdog;
mod words;
