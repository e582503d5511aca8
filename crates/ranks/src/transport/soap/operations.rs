//! The operations of an endpoint: what they take and give, their WSDL, and what the arguments of a call mean.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use fishplate_contract::{
    Argument, DataType, Fault, FaultCode, Interface, Parameter, Payload, Service, Signature, Value,
    Verb, VerbDefinition,
};
use fishplate_wire::ExpectedTable;
use fishplate_wire::wsdl::{View, write};

use crate::header::{Context, DomainId, Header, Kind, Mode, Rank, RequestId, Tag};
use crate::matching::Pattern;

/// Namespace of the operations.
pub const NAMESPACE: &str = "urn:fishplate:domain:1";

/// How long `receive` waits if it is not told, in seconds.
const WAIT: &str = "10";

/// Interface, and what the parser goes by.
#[derive(Debug)]
pub(super) struct Operations {
    service: Service,
    pub(super) interface: Interface,
    pub(super) expected: Arc<ExpectedTable>,
}

impl Operations {
    pub(super) fn new() -> Self {
        let interface = Interface { verbs: vec![store(), bstore(), receive()] };
        let service = Service {
            name: "domain".to_owned(),
            namespace: NAMESPACE.to_owned(),
            title: "A rank of a communication domain".to_owned(),
            documentation: "Messages to and from a program that runs. Each call has to have the \
                            domain's credential: Authorization: Bearer CREDENTIAL."
                .to_owned(),
            operations: Vec::new(),
        };
        let expected = Arc::new(ExpectedTable::requests(NAMESPACE, &interface));
        Self { service, interface, expected }
    }

    /// The WSDL of an endpoint at this address.
    pub(super) fn wsdl(&self, view: View, address: &str) -> String {
        write(&self.service, &self.interface, view, address)
    }
}

fn operation(
    name: &str,
    documentation: &str,
    inputs: Vec<Parameter>,
    outputs: Vec<Parameter>,
) -> VerbDefinition {
    VerbDefinition {
        name: name.to_owned(),
        verb: Verb::Call,
        operation: name.to_owned(),
        documentation: documentation.to_owned(),
        signature: Signature { inputs, outputs },
    }
}

fn store() -> VerbDefinition {
    let mut inputs = addressed();
    inputs.extend([
        Parameter::new("sequence", DataType::Long)
            .help("Its number, from 1: among the client's if client is given, else among those of the two ranks."),
        client(),
        word("mode", &Mode::ALL.map(Mode::name)).help("The send's communication mode (MPI 4.1, 3.4); standard."),
        word("kind", &Kind::ALL.map(Kind::name)).help("What it is to the protocol between ranks; clients leave it out: eager."),
        Parameter::new("length", DataType::Long).optional().help("Bytes of the data; they are counted otherwise."),
        Parameter::new("sender", DataType::Long).default("0").help("The sender's request; between ranks."),
        Parameter::new("receiver", DataType::Long).default("0").help("The receiver's request; between ranks."),
        data().optional(),
    ]);
    operation("store", "Gives a message to the rank (paper 002, 3.3).", inputs, Vec::new())
}

fn bstore() -> VerbDefinition {
    let mut inputs = addressed();
    let sequences = "long[ranks]".parse().map_or(DataType::Long, DataType::Array);
    inputs.extend([
        Parameter::new("sequence", DataType::Long)
            .optional()
            .help("The number of the call among the client's, from 1."),
        client(),
        Parameter::new("sequences", sequences).optional().help(
            "Numbers of the message by rank, that of each among those from the root to it; left out \
             where the rank is the root itself.",
        ),
        data(),
    ]);
    let documentation = "Gives a message of the root fromRank to the rank, which sends it on along the \
                         binomial tree (paper 002, 3.4.2).";
    operation("bstore", documentation, inputs, Vec::new())
}

fn receive() -> VerbDefinition {
    let inputs = vec![
        domain(),
        Parameter::new("source", DataType::Int).optional().help("From which rank; any."),
        Parameter::new("tag", DataType::Int).optional().help("With which tag; any."),
        context(),
        Parameter::new("wait", DataType::Double)
            .default(WAIT)
            .help("How long to wait for a message, in seconds."),
        Parameter::new("sequence", DataType::Long)
            .optional()
            .help("The number of the call among the client's that receive, from 1; one that comes again gives the same."),
        client(),
    ];
    let outputs = vec![
        Parameter::new("received", DataType::Bool).help("Whether there was one."),
        Parameter::new("fromRank", DataType::Int).optional().help("Who sent it."),
        Parameter::new("tag", DataType::Int).optional().help("Its tag."),
        data().optional(),
    ];
    let documentation =
        "Takes a message that waits at the rank: one that its program does not receive itself.";
    operation("receive", documentation, inputs, outputs)
}

fn domain() -> Parameter {
    Parameter::new("domain", DataType::String).help("ID of the domain: 32 hexadecimal digits.")
}

fn context() -> Parameter {
    Parameter::new("context", DataType::Long)
        .default("0")
        .help("Context of the communicator; 0 is that of all ranks.")
}

fn client() -> Parameter {
    Parameter::new("client", DataType::String)
        .optional()
        .help("A name that the caller gives itself, if it is no rank. It counts its calls from 1.")
}

fn data() -> Parameter {
    Parameter::new("data", DataType::Raw).help("The message.")
}

fn word(name: &str, choices: &[&str]) -> Parameter {
    let mut word = Parameter::new(name, DataType::String).optional();
    word.choices = choices.iter().map(|&choice| choice.to_owned()).collect();
    word
}

/// From whom, to whom.
fn addressed() -> Vec<Parameter> {
    vec![
        domain(),
        Parameter::new("fromRank", DataType::Int)
            .help("Who sends it, or in whose name a client does."),
        Parameter::new("toRank", DataType::Int).help("The rank of this endpoint."),
        context(),
        Parameter::new("tag", DataType::Int).help("Its tag, 0 and above."),
    ]
}

/// The arguments of a call.
#[derive(Debug)]
pub(super) struct Arguments(pub(super) Vec<Argument>);

/// A message that a call brings.
#[derive(Debug)]
pub(super) struct Stored {
    /// Without a number of the pair (0) if it is a client's.
    pub(super) header: Header,
    pub(super) data: Vec<u8>,
    /// The client and its number.
    pub(super) client: Option<(String, u64)>,
    /// `bstore`: numbers by rank.
    pub(super) sequences: Option<Vec<u64>>,
}

/// What `receive` asks for.
#[derive(Debug)]
pub(super) struct ReceiveRequest {
    pub(super) pattern: Pattern,
    pub(super) wait: Duration,
    /// The client and its number.
    pub(super) client: Option<(String, u64)>,
}

impl Arguments {
    /// The message of a `store` or `bstore` to `rank` of `ranks`.
    pub(super) fn stored(
        &self,
        operation: &str,
        at: (DomainId, Rank),
        ranks: u32,
    ) -> Result<Stored, Fault> {
        let domain = self.at(at)?;
        let to = self.rank("toRank", ranks)?;
        if to != at.1 {
            let problem = format!("it is {to}, but this is the endpoint of rank {}", at.1);
            return Err(invalid("toRank", problem));
        }
        let from = self.rank("fromRank", ranks)?;
        let sequence = self.sequence()?;
        let client = self.counted(operation)?;
        let missing = |name: &str, problem: &str| missing(operation, name, problem);
        let kind = self.word("kind", &Kind::ALL, Kind::name)?.unwrap_or(Kind::Eager);
        let mode = self.word("mode", &Mode::ALL, Mode::name)?.unwrap_or(Mode::Standard);
        if client.is_some() && (kind != Kind::Eager || mode == Mode::Synchronous) {
            let problem = "clients store eager messages that are not synchronous".to_owned();
            return Err(invalid(if kind == Kind::Eager { "mode" } else { "kind" }, problem));
        }
        let data = self.data()?;
        let told = self.number::<u64>("length")?;
        let has_payload = matches!(kind, Kind::Eager | Kind::Data);
        let length = match (has_payload, &data, told) {
            (true, None, _) => return Err(missing("data", "a message has data")),
            (true, Some(data), Some(told)) if told != data.len() as u64 => {
                let problem = format!("it is {told}, but {} bytes came", data.len());
                return Err(invalid("length", problem));
            }
            (true, Some(data), _) => data.len() as u64,
            (false, Some(data), _) if !data.is_empty() => {
                return Err(invalid("data", format!("{} has none", kind.name())));
            }
            (false, ..) => told.unwrap_or_default(),
        };
        let sequences = self.sequences(ranks)?;
        let tag = self.number::<Tag>("tag")?.unwrap_or_default();
        if client.is_some() && tag < 0 {
            return Err(invalid("tag", "tags are 0 and above"));
        }
        let header = Header {
            domain,
            from,
            to,
            context: Context(self.number("context")?.unwrap_or_default()),
            tag,
            sequence: if client.is_some() { 0 } else { sequence.unwrap_or_default() },
            mode,
            kind,
            length,
            sender: RequestId(self.number("sender")?.unwrap_or_default()),
            receiver: RequestId(self.number("receiver")?.unwrap_or_default()),
        };
        Ok(Stored { header, data: data.unwrap_or_default(), client, sequences })
    }

    /// What a `receive` asks for.
    pub(super) fn wanted(
        &self,
        at: (DomainId, Rank),
        ranks: u32,
        longest: Duration,
    ) -> Result<ReceiveRequest, Fault> {
        self.at(at)?;
        let context = Context(self.number("context")?.unwrap_or_default());
        if context.is_collective() {
            let problem = format!("{} is one of collective operations", context.0);
            return Err(invalid("context", problem));
        }
        let source = match self.text("source") {
            Some(_) => Some(self.rank("source", ranks)?),
            None => None,
        };
        let wait = self.number::<f64>("wait")?;
        let wait = wait.or_else(|| WAIT.parse().ok()).unwrap_or_default();
        let wait = Duration::try_from_secs_f64(wait)
            .map_err(|_| invalid("wait", "a number of seconds from 0 is needed"))?;
        if wait > longest {
            let message =
                format!("wait: it is longer than receive_wait, {} s", longest.as_secs_f64());
            let fault = Fault::new(FaultCode::ValueOutOfRange, message).parameter("wait");
            return Err(fault.limit("receive_wait", format!("{} ms", longest.as_millis())));
        }
        let client = self.counted("receive")?;
        let pattern = Pattern { context, source, tag: self.number("tag")? };
        Ok(ReceiveRequest { pattern, wait, client })
    }

    /// The client and the number of its call, if it counts them.
    fn counted(&self, operation: &str) -> Result<Option<(String, u64)>, Fault> {
        let Some(client) = self.text("client") else { return Ok(None) };
        let Some(number) = self.sequence()? else {
            let problem = "a client has to count its calls, from 1";
            return Err(missing(operation, "sequence", problem));
        };
        Ok(Some((client.to_owned(), number)))
    }

    fn sequence(&self) -> Result<Option<u64>, Fault> {
        let sequence = self.number::<u64>("sequence")?;
        if sequence.is_some_and(|sequence| sequence == 0 || sequence > i64::MAX.cast_unsigned()) {
            return Err(invalid("sequence", "numbers begin with 1"));
        }
        Ok(sequence)
    }

    fn at(&self, (domain, rank): (DomainId, Rank)) -> Result<DomainId, Fault> {
        match self.text("domain").and_then(|text| text.parse::<DomainId>().ok()) {
            Some(told) if told == domain => Ok(domain),
            Some(_) => Err(invalid("domain", format!("this is rank {rank} of another domain"))),
            None => Err(invalid("domain", "32 hexadecimal digits are needed")),
        }
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|argument| argument.name == name).map(|argument| &argument.value)
    }

    fn text(&self, name: &str) -> Option<&str> {
        match self.value(name)? {
            Value::Text(text) => Some(text.trim()),
            _ => None,
        }
    }

    fn number<T: FromStr>(&self, name: &str) -> Result<Option<T>, Fault> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let number = text.parse::<T>().map_err(|_| {
            let problem =
                format!("{:?} is no such number", fishplate_contract::lexical::shortened(text));
            invalid(name, problem)
        });
        number.map(Some)
    }

    fn rank(&self, name: &str, ranks: u32) -> Result<Rank, Fault> {
        let rank = self.number::<Rank>(name)?;
        rank.filter(|&rank| rank < ranks)
            .ok_or_else(|| invalid(name, format!("the domain has the ranks 0 to {}", ranks - 1)))
    }

    fn word<T: Copy>(
        &self,
        name: &str,
        all: &[T],
        name_of: fn(T) -> &'static str,
    ) -> Result<Option<T>, Fault> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let found = all.iter().copied().find(|&one| name_of(one) == text);
        let names = || all.iter().map(|&one| name_of(one)).collect::<Vec<_>>().join(", ");
        found.map(Some).ok_or_else(|| invalid(name, format!("one of {} is needed", names())))
    }

    fn data(&self) -> Result<Option<Vec<u8>>, Fault> {
        let Some(value) = self.value("data") else { return Ok(None) };
        let bytes = value.payload().and_then(bytes);
        bytes.map(Some).ok_or_else(|| invalid("data", "its bytes have to be in the message"))
    }

    fn sequences(&self, ranks: u32) -> Result<Option<Vec<u64>>, Fault> {
        let Some(Value::Array(array)) = self.value("sequences") else { return Ok(None) };
        let bytes = bytes(&array.data).unwrap_or_default();
        let (numbers, _) = bytes.as_chunks::<8>();
        let numbers: Vec<u64> = numbers.iter().map(|&number| u64::from_le_bytes(number)).collect();
        if numbers.len() != ranks as usize {
            let problem = format!("they are {}, for {ranks} ranks", numbers.len());
            return Err(invalid("sequences", problem));
        }
        Ok(Some(numbers))
    }
}

fn bytes(payload: &Payload) -> Option<Vec<u8>> {
    payload.pieces().map(<[_]>::concat)
}

fn missing(operation: &str, name: &str, problem: &str) -> Fault {
    Fault::new(FaultCode::MissingParameter, format!("{operation}: {problem}")).parameter(name)
}

/// A value that can't be right.
pub(super) fn invalid(parameter: &str, problem: impl std::fmt::Display) -> Fault {
    Fault::new(FaultCode::InvalidValue, format!("{parameter}: {problem}")).parameter(parameter)
}
