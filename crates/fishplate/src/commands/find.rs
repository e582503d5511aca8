//! `fishplate find` and `fishplate diff`: services by their interface, and how two differ.

use anyhow::Result;
use fishplate_client::find::{self, Difference, FoundService, ServiceQuery, interface};
use serde_json::{Value, json};

use super::client::{ConnectionArgs, run_interruptible};
use crate::exit::Exit;
use crate::output::{Output, text};

/// Find services by name or by interface on several servers
///
/// A service has an interface if whoever calls that one can call it: the same operations, with inputs and
/// outputs of the same names, types, dimensions and units; it may need less and give more. URLs of those go to
/// standard output; in what others of the same name or namespace differ, and which servers are away, to standard error.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate find moldyn --servers http://here.com,http://there.com
  fishplate find urn:example:volume-mesher --servers http://here.com,http://there.com
  fishplate find moldyn.wsdl --servers http://here.com,http://there.com
  fishplate find http://here.com/moldyn --servers http://there.com --json")]
pub(crate) struct FindArgs {
    /// Name or namespace of a service, or an interface: URL of a service, or a file with its WSDL
    wanted: String,
    /// Where to look, in this order
    #[arg(long, required = true, value_name = "URL,...", value_delimiter = ',')]
    servers: Vec<String>,
    #[command(flatten)]
    reach: ConnectionArgs,
}

/// Show in what the interfaces of two services differ
///
/// Each is the URL of a service or a file with its WSDL. A line that begins with `!` breaks callers: who calls the first can't
/// call the second in its place. The command ends with 1 if there is such a line.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  fishplate diff http://here.com/moldyn http://there.com/moldyn
  fishplate diff moldyn.wsdl http://there.com/moldyn --json")]
pub(crate) struct DiffArgs {
    /// The one that is called now
    first: String,
    /// The one that shall be called in its place
    second: String,
    #[command(flatten)]
    reach: ConnectionArgs,
}

/// Runs `find`.
pub(crate) fn run(args: &FindArgs, output: Output) -> Result<Exit> {
    run_interruptible(&[], async {
        let settings = args.reach.settings()?;
        let wanted = ServiceQuery::named(&args.wanted, &settings).await?;
        let found = find::find(&wanted, &args.servers, &settings).await?;
        for away in &found.away {
            output.note(&text::harmless(&format!("passed over: {away}")));
        }
        if output.json {
            output.value(
                &json!({ "services": found.services.iter().map(as_json).collect::<Vec<_>>() }),
            )?;
        }
        for service in found.services.iter().filter(|_| !output.json) {
            let url = service.service.address();
            if service.matches() {
                output.line(&text::harmless(&url))?;
            } else {
                let broken = service.differences.iter().filter(|of| of.breaks);
                let broken: Vec<String> = broken.map(ToString::to_string).collect();
                output.note(&format!("{url} differs: {}", broken.join("; ")));
            }
        }
        Ok(if found.matches().next().is_some() { Exit::Success } else { Exit::Other })
    })
}

/// Runs `diff`.
pub(crate) fn diff(args: &DiffArgs, output: Output) -> Result<Exit> {
    run_interruptible(&[], async {
        let settings = args.reach.settings()?;
        let first = interface(&args.first, &settings).await?;
        let second = interface(&args.second, &settings).await?;
        let differences = find::differences(&first, &second);
        if output.json {
            let all: Vec<Value> = differences.iter().map(difference_as_json).collect();
            output.value(&json!({ "differences": all }))?;
        } else {
            for difference in &differences {
                let mark = if difference.breaks { '!' } else { ' ' };
                output.line(&text::harmless(&format!("{mark} {difference}")))?;
            }
        }
        let breaks = differences.iter().any(|difference| difference.breaks);
        Ok(if breaks { Exit::Other } else { Exit::Success })
    })
}

fn as_json(found: &FoundService) -> Value {
    json!({
        "url": found.service.address(),
        "name": found.service.description().name,
        "matches": found.matches(),
        "differences": found.differences.iter().map(difference_as_json).collect::<Vec<_>>(),
    })
}

fn difference_as_json(of: &Difference) -> Value {
    json!({
        "operation": of.operation,
        "parameter": of.parameter,
        "what": of.what,
        "first": of.first,
        "second": of.second,
        "breaks": of.breaks,
    })
}
