//! A service from its WSDL alone, over HTTP.
//!
//! ```no_run
//! # async fn example() -> Result<(), fishplate_client::Error> {
//! use fishplate_client::{Options, Service, file_input, save};
//! use fishplate_contract::{Argument, Value};
//!
//! let service = Service::connect("http://somewhere.example/mesher").await?;
//! let arguments = vec![
//!     Argument::text("size", "0.5"),
//!     Argument::new("geometry", Value::Data(file_input("pipe.geo".as_ref()).await?)),
//! ];
//! let reply = service.call("call", arguments, &Options::default()).await?;
//! for output in &reply.outputs {
//!     if let Value::Data(data) = &output.value {
//!         save(data, "pipe.msh".as_ref()).await?;
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Files of any size travel in bounded memory, both ways: inputs are read while they are sent,
//! large outputs are written to hidden files beside their targets while they come, and renamed.
//!
//! Reading order:
//!
//! - [`error`]: what can go wrong between us and a service
//! - [`settings`]: how to reach a service, and options of one exchange
//! - [`connections`]: what services of one host use together
//! - [`credentials`]: what says who calls, and to whom it is said
//! - [`service`]: the service and its verbs
//! - `caller`: the service as a [`Caller`](fishplate_contract::Caller)
//! - `report`: what the verbs on jobs answer
//! - [`input`], [`save`](mod@save): values from files and into files
//! - [`array`](mod@array), [`directory`]: arrays and directories from files and into files
//! - [`arguments`]: the words of a call, as people write them; [`deliver`](mod@deliver): its outputs to
//!   where they were asked for
//! - [`domain`]: ranks on several servers, started together
//! - [`find`]: services by their interface, and how two differ
//! - [`session`]: spaces in which programs share files
//! - [`listing`]: the services of a server
//! - [`data`]: data that moves by reference
//! - [`meter`]: how much of an exchange was transferred
//! - `location`, `transport`, `body`, `spool`, `exchange`, `retry`: the inside

pub mod arguments;
pub mod array;
mod body;
mod caller;
pub mod connections;
pub mod credentials;
pub mod data;
pub mod deliver;
pub mod directory;
pub mod domain;
pub mod error;
mod exchange;
pub mod find;
pub mod input;
pub mod listing;
mod location;
pub mod meter;
pub mod quota;
mod report;
mod retry;
pub mod save;
pub mod service;
pub mod session;
pub mod settings;
mod spool;
mod transport;
pub mod watch;

pub use connections::Connections;
pub use credentials::{Credential, Credentials};
pub use error::Error;
pub use fishplate_contract::{CallOptions, JobFilter, JobPage, KillResult, LogPage, LogStream};
pub use fishplate_wire::wsdl::Description;
pub use fishplate_wire::{ArrayForm, Packaging, SoapReply, SoapVersion};
pub use input::file_input;
pub use location::is_same_address;
pub use meter::Meter;
pub use save::save;
pub use service::{Service, new_key};
pub use session::{OpenSession, Session, SessionFile, Sessions};
pub use settings::{Options, Retry, Settings};
