//! An envelope as data: headers and body.

use fishplate_contract::{ElementType as Number, Payload};

use crate::name::{self, QName};

/// A SOAP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SoapVersion {
    /// SOAP 1.1 (W3C Note 2000-05-08), as the WS-I Basic Profile 1.1 reads it.
    V11,
    /// SOAP 1.2 (W3C Recommendation 2007-04-27).
    V12,
}

impl SoapVersion {
    /// Namespace of its envelope.
    pub fn namespace(self) -> &'static str {
        match self {
            Self::V11 => name::SOAP_11,
            Self::V12 => name::SOAP_12,
        }
    }

    /// Media type of a plain message.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::V11 => "text/xml",
            Self::V12 => "application/soap+xml",
        }
    }
}

/// Headers and a body.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// SOAP version.
    pub version: SoapVersion,
    /// Header blocks, in order.
    pub headers: Vec<HeaderBlock>,
    /// The body.
    pub body: Body,
}

/// A header block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderBlock {
    /// Whoever does not understand it must fault.
    pub must_understand: bool,
    /// For whom it is (SOAP 1.1 actor, SOAP 1.2 role); `None` is the receiver.
    pub role: Option<String>,
    /// The block itself.
    pub element: XmlElement,
}

impl HeaderBlock {
    /// A block that may be passed over.
    pub fn optional(element: XmlElement) -> Self {
        Self { must_understand: false, role: None, element }
    }
}

/// A body.
#[derive(Clone, Debug)]
pub enum Body {
    /// A call or its results: a wrapper element with a child for each value.
    Wrapper {
        /// Name of the wrapper.
        name: QName,
        /// The values.
        children: Vec<Child>,
    },
    /// A fault.
    Fault(SoapFault),
    /// A body without a child: of a reply that gives nothing.
    Empty,
}

/// A value in a wrapper or in a record.
#[derive(Clone, Debug)]
pub struct Child {
    /// Name of its element; unqualified is taken for the wrapper's namespace.
    pub name: QName,
    /// The unqualified attribute `name`, which tells repeated values apart.
    pub label: Option<String>,
    /// The value.
    pub content: ValueContent,
}

/// The content of a value's element.
#[derive(Clone, Debug)]
pub enum ValueContent {
    /// Text, as it was sent.
    Text(String),
    /// A file's bytes.
    Data(Payload),
    /// A file's bytes are in the part of this name, a URL. Only while a message is read: a parcel has
    /// the part's payload in this place.
    Part(String),
    /// An array of numbers.
    Array(MessageArray),
    /// Named fields.
    Fields(Vec<Child>),
    /// `xsi:nil`.
    Nil,
    /// The element belongs to no parameter; its content was passed over.
    Unexpected,
}

impl ValueContent {
    /// The URL of the part that it refers to.
    pub(crate) fn part(&self) -> Option<&str> {
        match self {
            Self::Part(url) => Some(url),
            _ => None,
        }
    }
}

/// How an array stands in a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ArrayForm {
    /// An element for each number, rows being elements around them.
    #[default]
    Elements,
    /// Its bytes, as a file's, with its type and shape as attributes.
    Binary,
}

impl ArrayForm {
    /// Every form, the plainest first.
    pub const ALL: [Self; 2] = [Self::Elements, Self::Binary];

    /// The name by which users know it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Elements => "elements",
            Self::Binary => "binary",
        }
    }

    /// The form of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.name() == name)
    }
}

/// An array as it stands in a message.
#[derive(Clone, Debug)]
pub struct MessageArray {
    /// What it consists of.
    pub element: Number,
    /// Lengths of its axes; `None` if its bytes came without.
    pub shape: Option<Vec<u64>>,
    /// Its bytes: [`ValueContent::Data`], or [`ValueContent::Part`] while a message is read.
    pub data: Box<ValueContent>,
    /// How it stands in the message.
    pub form: ArrayForm,
    /// Names of its elements, outermost first, if they are not `item`.
    pub names: Vec<QName>,
}

/// A SOAP fault of either version.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SoapFault {
    /// 1.1 faultcode, 1.2 Code/Value.
    pub code: QName,
    /// 1.2 Subcode/Value, outermost first.
    pub subcodes: Vec<QName>,
    /// 1.1 faultstring, 1.2 Reason/Text (the first).
    pub reason: String,
    /// Children of detail or Detail.
    pub detail: Vec<XmlElement>,
}

/// A small element, whole: header blocks and fault details.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XmlElement {
    /// Its expanded name: namespace and local part.
    pub name: QName,
    /// Attributes, namespace declarations left out.
    pub attributes: Vec<(QName, String)>,
    /// Child elements.
    pub children: Vec<XmlElement>,
    /// All text directly in it.
    pub text: String,
}

impl XmlElement {
    /// An element with text.
    pub fn with_text(name: QName, text: impl Into<String>) -> Self {
        Self { name, text: text.into(), ..Self::default() }
    }

    /// The first child of that local name.
    pub fn child(&self, local: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name.local == local)
    }

    /// The value of that attribute.
    pub fn attribute(&self, namespace: &str, local: &str) -> Option<&str> {
        self.attributes
            .iter()
            .find(|(name, _)| name.is(namespace, local))
            .map(|(_, value)| value.as_str())
    }
}
