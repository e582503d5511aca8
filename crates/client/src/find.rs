//! Services found by their interface (paper 001, section 3: the workflow manager finds suitable services), and how two interfaces differ.
//!
//! Interfaces are compared by what they take and give: names, types with the dimensions of arrays, units, what may be left out or
//! repeated, what values are allowed. Texts for people do not count.

use std::fmt;
use std::path::Path;

use fishplate_contract::{DataType, FaultCode, Parameter, Verb};
use fishplate_wire::wsdl::{self, DescribedOperation, Description};

use crate::error::Error;
use crate::listing;
use crate::service::Service;
use crate::settings::Settings;

/// Which interface is wanted.
#[derive(Clone, Debug)]
pub enum ServiceQuery {
    /// That of any service of this name.
    Name(String),
    /// That of any service of this namespace, which several services may have: `urn:example:volume-mesher`.
    Namespace(String),
    /// One that can stand in for this one.
    Interface(Box<Description>),
}

impl ServiceQuery {
    /// What is meant by a name, a namespace that is a URN, the URL of a service or a file with its WSDL.
    ///
    /// # Errors
    /// What stands there can't be read, or is no description of a service.
    pub async fn named(text: &str, settings: &Settings) -> Result<Self, Error> {
        if text.starts_with("urn:") {
            return Ok(Self::Namespace(text.to_owned()));
        }
        if text.contains(['/', '.']) || Path::new(text).exists() {
            return Ok(Self::Interface(Box::new(interface(text, settings).await?)));
        }
        Ok(Self::Name(text.to_owned()))
    }

    /// Whether a service is meant by what it says of itself, whatever it takes and gives.
    fn means(&self, of: &Description) -> bool {
        match self {
            Self::Name(name) => of.name == *name,
            Self::Namespace(namespace) => of.namespace == *namespace,
            Self::Interface(wanted) => of.name == wanted.name,
        }
    }
}

/// The interface of the service at a URL, or of which a file has the WSDL.
///
/// # Errors
/// It can't be read, or is no description of a service.
pub async fn interface(text: &str, settings: &Settings) -> Result<Description, Error> {
    let path = Path::new(text);
    if !text.contains("://") && path.exists() {
        let read = tokio::fs::read_to_string(path).await.map_err(Error::file("read", path))?;
        return wsdl::read(&read).map_err(|source| Error::NotWsdl { url: text.to_owned(), source });
    }
    Ok(Service::connect_with(text, settings.clone()).await?.description().clone())
}

/// A service that has the name, or the interface.
#[derive(Clone)]
pub struct FoundService {
    /// The service.
    pub service: Service,
    /// How it differs from what is wanted; for a name or namespace, from the first that was found.
    pub differences: Vec<Difference>,
}

impl FoundService {
    /// Whether whoever calls what is wanted can call it.
    pub fn matches(&self) -> bool {
        !self.differences.iter().any(|difference| difference.breaks)
    }
}

/// One thing in which two interfaces differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The operation.
    pub operation: String,
    /// The parameter, with its direction: `input x`. None if it is about the whole operation.
    pub parameter: Option<String>,
    /// What of it: `unit`, `type`.
    pub what: &'static str,
    /// As the first has it.
    pub first: String,
    /// As the second has it.
    pub second: String,
    /// Who calls the first can't call the second in its place.
    pub breaks: bool,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.operation)?;
        if let Some(parameter) = &self.parameter {
            write!(f, "{parameter}: ")?;
        }
        write!(f, "{}: {} / {}", self.what, self.first, self.second)
    }
}

/// What was found on several servers.
#[derive(Default)]
pub struct SearchResult {
    /// The services that are wanted, in the order of the servers; with them those of the same name or namespace that can't
    /// stand in.
    pub services: Vec<FoundService>,
    /// Why servers were passed over: they are away.
    pub away: Vec<Error>,
}

impl SearchResult {
    /// The services that can be called as what is wanted.
    pub fn matches(&self) -> impl Iterator<Item = &FoundService> {
        self.services.iter().filter(|of| of.matches())
    }
}

/// The services of these servers that are wanted.
///
/// # Errors
/// A server can't be asked, or lists no services; all of them are away.
pub async fn find(
    wanted: &ServiceQuery,
    servers: &[String],
    settings: &Settings,
) -> Result<SearchResult, Error> {
    let SearchResult { services: mut found, mut away } = SearchResult::default();
    for url in servers {
        let listing = match listing::list(url, settings).await {
            Err(error) if is_away(&error) => {
                away.push(error);
                continue;
            }
            listing => listing?.ok_or_else(|| Error::BadUrl {
                url: url.clone(),
                reason: "no server is there that lists its services".to_owned(),
            })?,
        };
        for name in listing.services {
            if matches!(wanted, ServiceQuery::Name(wanted) if *wanted != name) {
                continue;
            }
            let url = format!("{}/{name}", listing.server.trim_end_matches('/'));
            let service = match Service::connect_with(&url, settings.clone()).await {
                Ok(service) => service,
                // It was removed meanwhile, or may not be called by us.
                Err(Error::Http { status: 404, .. }) => continue,
                Err(Error::Fault(fault))
                    if matches!(fault.code, FaultCode::Unauthenticated | FaultCode::Forbidden) =>
                {
                    continue;
                }
                Err(error) if is_away(&error) => {
                    away.push(error);
                    break;
                }
                Err(error) => return Err(error),
            };
            let is_meant = wanted.means(service.description());
            let differences = match (wanted, found.first()) {
                (ServiceQuery::Interface(wanted), _) => differences(wanted, service.description()),
                (_, Some(first)) => differences(first.service.description(), service.description()),
                (_, None) => Vec::new(),
            };
            let candidate = FoundService { service, differences };
            let stands_in = matches!(wanted, ServiceQuery::Interface(_)) && candidate.matches();
            if is_meant || stands_in {
                found.push(candidate);
            }
        }
    }
    match found.is_empty() && !away.is_empty() && away.len() == servers.len() {
        true => Err(away.remove(0)),
        false => Ok(SearchResult { services: found, away }),
    }
}

/// The server does not answer, and the next one may.
fn is_away(error: &Error) -> bool {
    error.is_transient() || matches!(error, Error::TimedOut { .. })
}

/// In what a second interface differs from a first one.
pub fn differences(first: &Description, second: &Description) -> Vec<Difference> {
    let (firsts, seconds) = (operations(first), operations(second));
    let mut found = Vec::new();
    for one in &firsts {
        let name = &one.definition.name;
        match seconds.iter().find(|other| other.definition.name == *name) {
            Some(other) if one.definition.verb == Verb::Call => compare(one, other, &mut found),
            Some(_) => {}
            None => found.push(of_operation(name, "there", "not there", true)),
        }
    }
    for other in &seconds {
        let name = &other.definition.name;
        if !firsts.iter().any(|one| one.definition.name == *name) {
            found.push(of_operation(name, "not there", "there", false));
        }
    }
    found
}

/// What is compared: what can be called, and whether it can be a rank (`init` takes what the call takes).
fn operations(of: &Description) -> Vec<&DescribedOperation> {
    let is_own = |of: &&DescribedOperation| matches!(of.definition.verb, Verb::Call | Verb::Init);
    of.operations.iter().filter(is_own).collect()
}

fn of_operation(name: &str, first: &str, second: &str, breaks: bool) -> Difference {
    let (first, second) = (first.to_owned(), second.to_owned());
    Difference {
        operation: name.to_owned(),
        parameter: None,
        what: "operation",
        first,
        second,
        breaks,
    }
}

fn compare(first: &DescribedOperation, second: &DescribedOperation, found: &mut Vec<Difference>) {
    let (one, other) = (&first.definition.signature, &second.definition.signature);
    let operation = &first.definition.name;
    for (direction, ours, theirs) in
        [("input", &one.inputs, &other.inputs), ("output", &one.outputs, &other.outputs)]
    {
        let is_input = direction == "input";
        let mut tell = |name: &str, what, (first, second): (String, String), breaks| {
            if first != second {
                let parameter = Some(format!("{direction} {name}"));
                let operation = operation.clone();
                found.push(Difference { operation, parameter, what, first, second, breaks });
            }
        };
        for a in ours {
            let name = &a.name;
            let Some(b) = theirs.iter().find(|b| b.name == *name) else {
                let there = ("there".to_owned(), "not there".to_owned());
                tell(name, "parameter", there, true);
                continue;
            };
            tell(name, "type", (type_text(&a.data_type), type_text(&b.data_type)), true);
            tell(name, "unit", (a.unit.clone(), b.unit.clone()), true);
            // An input may need less, an output may give more.
            let (needs, needed) = (needs(a), needs(b));
            let laxer = if is_input { !b.is_required() } else { b.is_required() };
            tell(name, "needed", (needs, needed), a.repeated != b.repeated || !laxer);
            let (allowed, wider) = allowed(a, b, is_input);
            tell(name, "allowed", allowed, !wider);
            tell(name, "default", (text(&a.default), text(&b.default)), false);
            tell(name, "media type", (a.media_type.clone(), b.media_type.clone()), false);
        }
        for b in theirs.iter().filter(|b| !ours.iter().any(|a| a.name == b.name)) {
            let there = ("not there".to_owned(), "there".to_owned());
            tell(&b.name, "parameter", there, is_input && b.is_required());
        }
    }
}

fn text(of: &Option<String>) -> String {
    of.clone().unwrap_or_default()
}

fn type_text(of: &DataType) -> String {
    match of {
        DataType::Record(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|field| {
                    format!("{} {} {}", field.name, type_text(&field.data_type), needs(field))
                })
                .collect();
            format!("record of {}", fields.join(", "))
        }
        other => other.name().into_owned(),
    }
}

fn needs(of: &Parameter) -> String {
    match (of.repeated, of.is_required()) {
        (true, _) => of.count_text(),
        (false, true) => "required".to_owned(),
        (false, false) => "optional".to_owned(),
    }
}

/// What values both allow, and whether the second one may stand in: an input that takes all of them, an output that gives no other.
fn allowed(first: &Parameter, second: &Parameter, is_input: bool) -> ((String, String), bool) {
    let told = |of: &Parameter| {
        let range = [("from ", &of.min), ("to ", &of.max)].into_iter();
        let range = range.filter_map(|(word, end)| Some(format!("{word}{}", end.as_ref()?)));
        let choices = (!of.choices.is_empty()).then(|| of.choices.join("|"));
        range.chain(choices).collect::<Vec<_>>().join(" ")
    };
    let (narrow, wide) = if is_input { (first, second) } else { (second, first) };
    let within = |end: &Option<String>, bound: &Option<String>, below: bool| {
        let number = |text: &Option<String>| text.as_ref()?.trim().parse::<f64>().ok();
        match (number(end), number(bound), bound) {
            (_, _, None) => true,
            (Some(end), Some(bound), _) if below => end >= bound,
            (Some(end), Some(bound), _) => end <= bound,
            _ => end == bound,
        }
    };
    let chosen = wide.choices.is_empty()
        || (!narrow.choices.is_empty()
            && narrow.choices.iter().all(|choice| wide.choices.contains(choice)));
    let wider =
        chosen && within(&narrow.min, &wide.min, true) && within(&narrow.max, &wide.max, false);
    ((told(first), told(second)), wider)
}

#[cfg(test)]
mod tests {
    use fishplate_contract::Signature;
    use fishplate_contract::interface::VerbDefinition;
    use fishplate_wire::QName;

    use super::*;

    fn description(operations: Vec<(&str, Vec<Parameter>, Vec<Parameter>)>) -> Description {
        let operations = operations.into_iter().map(|(name, inputs, outputs)| DescribedOperation {
            definition: VerbDefinition {
                name: name.to_owned(),
                verb: Verb::Call,
                operation: name.to_owned(),
                documentation: String::new(),
                signature: Signature { inputs, outputs },
            },
            action: String::new(),
            request: QName::new("", name),
            response: QName::new("", name),
            qualified: false,
            items: Vec::new(),
            fault: None,
        });
        Description {
            name: "solver".to_owned(),
            namespace: "urn:test".to_owned(),
            title: String::new(),
            documentation: String::new(),
            operations: operations.collect(),
            addresses: Vec::new(),
            ours: true,
        }
    }

    fn double() -> Parameter {
        Parameter { unit: "mm".to_owned(), ..Parameter::new("x", DataType::Double) }
    }

    /// What is said of an input, and of an output, in place of `double()`; whether that breaks callers.
    fn said(other: Parameter) -> [Vec<(String, bool)>; 2] {
        let of = |inputs: &[Parameter], outputs: &[Parameter]| {
            description(vec![("call", inputs.to_vec(), outputs.to_vec())])
        };
        let told = |second: &Description, first: &Description| {
            let all = differences(first, second).into_iter();
            all.map(|found| (found.to_string(), found.breaks)).collect()
        };
        let ours = [double()];
        let theirs = [other];
        [told(&of(&theirs, &[]), &of(&ours, &[])), told(&of(&[], &theirs), &of(&[], &ours))]
    }

    #[test]
    fn what_breaks_callers_is_told_apart_from_what_does_not() {
        assert_eq!(said(double().help("otherwise")), [vec![], vec![]]);
        let grid = Parameter { data_type: DataType::from_name("double[][]").unwrap(), ..double() };
        let inch = Parameter { unit: "in".to_owned(), ..double() };
        let bounded = Parameter { max: Some("9".to_owned()), ..double() };
        for (other, what, breaks) in [
            (grid, "type: double / double[][]", [true, true]),
            (inch, "unit: mm / in", [true, true]),
            (double().repeated(), "needed: required / any number", [true, true]),
            (double().optional(), "needed: required / optional", [false, true]),
            (bounded, "allowed:  / to 9", [true, false]),
        ] {
            let [input, output] = said(other);
            assert_eq!(input, [(format!("call: input x: {what}"), breaks[0])]);
            assert_eq!(output, [(format!("call: output x: {what}"), breaks[1])]);
        }
        let [input, output] = said(Parameter { name: "y".to_owned(), ..double() });
        assert_eq!(input.iter().map(|of| of.1).collect::<Vec<_>>(), [true, true], "{input:?}");
        assert_eq!(output.iter().map(|of| of.1).collect::<Vec<_>>(), [true, false], "{output:?}");
    }

    #[test]
    fn operations_are_compared_by_name() {
        let one = description(vec![("solve", vec![], vec![])]);
        let two = description(vec![("solve", vec![], vec![]), ("mesh", vec![], vec![])]);
        let told = |first, second| -> Vec<(String, bool)> {
            let all = differences(first, second).into_iter();
            all.map(|found| (found.operation, found.breaks)).collect()
        };
        assert_eq!(told(&one, &two), [("mesh".to_owned(), false)]);
        assert_eq!(told(&two, &one), [("mesh".to_owned(), true)]);
    }
}
