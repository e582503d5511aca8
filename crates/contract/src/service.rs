//! What a service offers: operations with typed parameters (paper 000, section 4.2).

use std::borrow::Cow;

use crate::array::ArrayType;

/// A named service: one WSDL, one address, one or more operations.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Short name (`-n`), the last segment of its URL. An XML `NCName`.
    pub name: String,
    /// Target namespace (`-U`), an absolute URI.
    pub namespace: String,
    /// Full name (`-N`), for people.
    pub title: String,
    /// What it does, in plain text.
    pub documentation: String,
    /// Its operations; a program described by one command line has one, named `call`.
    pub operations: Vec<Operation>,
}

impl Service {
    /// The operation of that name.
    pub fn operation(&self, name: &str) -> Option<&Operation> {
        self.operations.iter().find(|operation| operation.name == name)
    }
}

/// Something a service can do; what does it (a program, a function) is not told here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operation {
    /// `call` for a service's only operation, else an XML `NCName` of its own.
    pub name: String,
    /// What it does, in plain text.
    pub documentation: String,
    /// What it takes and gives.
    pub signature: Signature,
}

impl Operation {
    /// That of this name, which takes and gives these.
    pub fn new(
        name: &str,
        documentation: &str,
        inputs: Vec<Parameter>,
        outputs: Vec<Parameter>,
    ) -> Self {
        let (name, documentation) = (name.to_owned(), documentation.to_owned());
        Self { name, documentation, signature: Signature { inputs, outputs } }
    }
}

/// What goes in and what comes out, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signature {
    /// Parameters that a caller gives. An `in out` parameter stands in both lists.
    pub inputs: Vec<Parameter>,
    /// Parameters that a caller gets back.
    pub outputs: Vec<Parameter>,
}

impl Signature {
    /// The input of that name.
    pub fn input(&self, name: &str) -> Option<&Parameter> {
        self.inputs.iter().find(|parameter| parameter.name == name)
    }

    /// The output of that name.
    pub fn output(&self, name: &str) -> Option<&Parameter> {
        self.outputs.iter().find(|parameter| parameter.name == name)
    }
}

/// One typed slot, as a caller sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// An XML `NCName`.
    pub name: String,
    /// The XSD type of that name.
    pub data_type: DataType,
    /// One line for people.
    pub help: String,
    /// Physical unit of the value, such as `mm` or `MPa`; empty if it has none.
    pub unit: String,
    /// Media type of a file's content; empty if not told.
    pub media_type: String,
    /// May be left out.
    pub optional: bool,
    /// The text used when it is left out (implies `optional`).
    pub default: Option<String>,
    /// May stand several times: inputs that are lists, in the caller's order, and outputs by glob, each told
    /// apart by a `name` attribute.
    pub repeated: bool,
    /// How many values a repeated one has at least, if it is not left out.
    pub min_count: u32,
    /// How many values a repeated one has at most, 2 or more; `None`: any number.
    pub max_count: Option<u32>,
    /// The only texts allowed, if not empty.
    pub choices: Vec<String>,
    /// Smallest value allowed, inclusive, in the lexical form of the type.
    pub min: Option<String>,
    /// Largest value allowed, inclusive, in the lexical form of the type.
    pub max: Option<String>,
    /// A string may begin with `-` (refused otherwise: it could pass for an option).
    pub allow_leading_dash: bool,
    /// The program gets a string without the white space around it; else as it was sent, which is what
    /// `xs:string` means. (Values of other types and of `choices` are always trimmed.)
    pub trim: bool,
    /// Whoever gets the file reads it once, from its beginning to its end, and so may be given it while
    /// it arrives.
    pub streamed: bool,
}

impl Parameter {
    /// A required parameter with nothing more to say of it.
    pub fn new(name: impl Into<String>, data_type: DataType) -> Self {
        Self {
            name: name.into(),
            data_type,
            help: String::new(),
            unit: String::new(),
            media_type: String::new(),
            optional: false,
            default: None,
            repeated: false,
            min_count: 0,
            max_count: None,
            choices: Vec::new(),
            min: None,
            max: None,
            allow_leading_dash: false,
            trim: false,
            streamed: false,
        }
    }

    /// It may not be left out.
    pub fn is_required(&self) -> bool {
        let may_be_empty = self.repeated && self.min_count == 0;
        !self.optional && !may_be_empty && self.default.is_none()
    }

    /// How many values a repeated one has, for people: `any number`, `2 to 5`.
    pub fn count_text(&self) -> String {
        match (self.min_count, self.max_count) {
            (0, None) => "any number".to_owned(),
            (min, None) => format!("{min} or more"),
            (min, Some(max)) if min == max => format!("{max} values"),
            (0, Some(max)) => format!("at most {max} values"),
            (min, Some(max)) => format!("{min} to {max} values"),
        }
    }

    /// Its value is one file, the only kind that can be given while it arrives.
    pub fn is_file(&self) -> bool {
        matches!(self.data_type, DataType::Raw | DataType::Xml) && !self.repeated
    }

    /// The same with a line of help.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = help.into();
        self
    }

    /// The same, but it may be left out.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// The same with a text used when it is left out.
    #[must_use]
    pub fn default(mut self, text: impl Into<String>) -> Self {
        self.default = Some(text.into());
        self.optional = true;
        self
    }

    /// The same, but its file may be given while it arrives.
    #[must_use]
    pub fn streamed(mut self) -> Self {
        self.streamed = true;
        self
    }

    /// The same, but it may stand any number of times.
    #[must_use]
    pub fn repeated(mut self) -> Self {
        self.repeated = true;
        self
    }
}

/// The type of a parameter. A scalar is the XSD type of its name; a caller's lexical text
/// reaches the program as it was sent, trimmed unless it is a string.
#[derive(Clone, Debug, PartialEq)]
pub enum DataType {
    /// `xs:int`, 32 bits.
    Int,
    /// `xs:long`, 64 bits.
    Long,
    /// `xs:float`.
    Float,
    /// `xs:double`.
    Double,
    /// `xs:boolean`.
    Bool,
    /// `xs:string`.
    String,
    /// An arbitrary binary file; `xs:base64Binary`.
    Raw,
    /// A structured XML file; `xs:base64Binary` in the plain view, so that its bytes stay its bytes.
    Xml,
    /// A directory as one payload, a tar archive (POSIX.1-2001 pax); `xs:base64Binary`.
    Dir,
    /// An array of numbers: elements within elements in the plain view, base64 in the binary one.
    Array(ArrayType),
    /// `xs:dateTime` in UTC; in reports only, never a slot's type.
    DateTime,
    /// A group of named fields; in reports only, never a slot's type.
    Record(Vec<Parameter>),
}

impl DataType {
    /// The type that a slot or a service file names, such as `int`.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "int" => Self::Int,
            "long" => Self::Long,
            "float" => Self::Float,
            "double" => Self::Double,
            "bool" => Self::Bool,
            "string" => Self::String,
            "raw" => Self::Raw,
            "xml" => Self::Xml,
            "dir" => Self::Dir,
            other => Self::Array(other.parse().ok()?),
        })
    }

    /// Names that [`DataType::from_name`] takes beside those of arrays (`float[][]`), for messages.
    pub const NAMES: [&'static str; 9] =
        ["int", "long", "float", "double", "bool", "string", "raw", "xml", "dir"];

    /// Its name in slots, service files and usage texts.
    pub fn name(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Int => "int",
            Self::Long => "long",
            Self::Float => "float",
            Self::Double => "double",
            Self::Bool => "bool",
            Self::String => "string",
            Self::Raw => "raw",
            Self::Xml => "xml",
            Self::Dir => "dir",
            Self::Array(array) => return Cow::Owned(array.to_string()),
            Self::DateTime => "dateTime",
            Self::Record(_) => "record",
        })
    }

    /// The type of the array, if it is one.
    pub fn as_array(&self) -> Option<&ArrayType> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }

    /// Carries a file's bytes (base64, an attachment, a reference) rather than text.
    pub fn is_binary(&self) -> bool {
        matches!(self, Self::Raw | Self::Xml | Self::Dir)
    }
}
