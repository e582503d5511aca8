//! The schemas in a WSDL: elements to parameters.

use fishplate_contract::{ArrayType, DataType, ElementType, Parameter};
use roxmltree::Node;

use super::read::{WsdlError, name_of, unusable};
use crate::name::{PARAMETER, QName, SWA_REF, WSDL, XSD};

/// How deep records are followed; a type that holds itself ends here.
const DEPTH: usize = 16;

/// All schemas of a WSDL.
pub(super) struct Types<'a, 'i> {
    schemas: Vec<Node<'a, 'i>>,
}

/// What an element's type comes to.
struct ResolvedType {
    data_type: DataType,
    choices: Vec<String>,
    /// Names of an array's elements, outermost first.
    items: Vec<QName>,
}

/// An element of a group.
struct GroupElement {
    parameter: Parameter,
    name: QName,
    items: Vec<QName>,
}

/// The values in a wrapper element.
pub(super) struct WrappedValues {
    pub(super) parameters: Vec<Parameter>,
    /// Names of the elements of those that are arrays, outermost first.
    pub(super) items: Vec<(String, Vec<QName>)>,
}

impl<'a, 'i> Types<'a, 'i> {
    pub(super) fn of(definitions: Node<'a, 'i>) -> Self {
        let types = definitions.children().filter(|node| node.has_tag_name((WSDL, "types")));
        let schemas = types.flat_map(|types| types.children());
        Self { schemas: schemas.filter(|node| node.has_tag_name((XSD, "schema"))).collect() }
    }

    /// The name that an attribute of a node holds.
    pub(super) fn qname(&self, node: Node<'a, 'i>, text: &str) -> QName {
        let (prefix, local) = match text.split_once(':') {
            Some((prefix, local)) => (Some(prefix), local),
            None => (None, text),
        };
        QName::new(node.lookup_namespace_uri(prefix).unwrap_or_default(), local)
    }

    /// A top-level definition.
    fn find(&self, kind: &str, name: &QName) -> Option<Node<'a, 'i>> {
        let of_namespace = self.schemas.iter().filter(|schema| {
            schema.attribute("targetNamespace").unwrap_or_default() == name.namespace
        });
        of_namespace.flat_map(Node::children).find(|node| {
            node.has_tag_name((XSD, kind)) && node.attribute("name") == Some(&*name.local)
        })
    }

    /// Whether the elements within a top-level element are in its namespace.
    pub(super) fn is_qualified(&self, element: &QName) -> bool {
        let schema = self.find("element", element).and_then(|node| node.parent());
        schema.and_then(|schema| schema.attribute("elementFormDefault")) == Some("qualified")
    }

    /// The values in a wrapper element.
    pub(super) fn wrapped(&self, wrapper: &QName) -> Result<WrappedValues, WsdlError> {
        let element = self.find("element", wrapper).ok_or_else(|| {
            unusable(format!("it has no element {wrapper} (imported schemas are not read)"))
        })?;
        let complex = match element.attribute("type") {
            Some(name) => self.find("complexType", &self.qname(element, name)),
            None => child(element, "complexType"),
        };
        let complex =
            complex.ok_or_else(|| unusable(format!("the element {wrapper} wraps no values")))?;
        let mut wrapped = WrappedValues { parameters: Vec::new(), items: Vec::new() };
        for GroupElement { parameter, items, .. } in self.fields(complex, 0)? {
            if !items.is_empty() {
                wrapped.items.push((parameter.name.clone(), items));
            }
            wrapped.parameters.push(parameter);
        }
        Ok(wrapped)
    }

    fn fields(&self, complex: Node<'a, 'i>, depth: usize) -> Result<Vec<GroupElement>, WsdlError> {
        if depth > DEPTH {
            return Err(unusable("a type holds itself"));
        }
        let group = ["sequence", "all", "choice"].iter().find_map(|kind| child(complex, kind));
        let Some(group) = group else { return Ok(Vec::new()) };
        let choice = group.tag_name().name() == "choice";
        let elements = group.children().filter(|node| node.has_tag_name((XSD, "element")));
        elements.map(|element| self.field(element, choice, depth)).collect()
    }

    fn field(
        &self,
        node: Node<'a, 'i>,
        choice: bool,
        depth: usize,
    ) -> Result<GroupElement, WsdlError> {
        let referred =
            node.attribute("ref").and_then(|name| self.find("element", &self.qname(node, name)));
        let element = referred.unwrap_or(node);
        let name = name_of(element)?;
        let resolved = self.resolve(element, depth)?;
        let mut parameter = Parameter::new(name, resolved.data_type);
        parameter.choices = resolved.choices;
        let most = node.attribute("maxOccurs").unwrap_or("1");
        parameter.repeated = !matches!(most, "0" | "1");
        if parameter.repeated {
            // What others call needed may be empty all the same: how many there are at least, we tell ourselves.
            parameter.max_count = most.parse().ok();
        }
        let may_lack = choice || node.attribute("minOccurs") == Some("0");
        parameter.optional = may_lack && !parameter.repeated;
        if let Some(annotation) = child(element, "annotation") {
            annotated(&mut parameter, annotation);
        }
        let name = element_name(element, referred.is_some());
        Ok(GroupElement { parameter, name, items: resolved.items })
    }

    fn resolve(&self, element: Node<'a, 'i>, depth: usize) -> Result<ResolvedType, WsdlError> {
        if let Some(name) = element.attribute("type") {
            return self.named_type(&self.qname(element, name), depth);
        }
        if let Some(simple) = child(element, "simpleType") {
            return self.simple(simple, depth);
        }
        match child(element, "complexType") {
            Some(complex) => self.complex(complex, depth),
            None => Ok(plain(DataType::String)),
        }
    }

    fn named_type(&self, name: &QName, depth: usize) -> Result<ResolvedType, WsdlError> {
        if name.namespace == XSD {
            return Ok(plain(built_in(&name.local)));
        }
        if name.is(SWA_REF, "swaRef") {
            return Ok(plain(DataType::Raw));
        }
        if depth > DEPTH {
            return Err(unusable(format!("the type {name} holds itself")));
        }
        if let Some(simple) = self.find("simpleType", name) {
            return self.simple(simple, depth + 1);
        }
        match self.find("complexType", name) {
            Some(complex) => self.complex(complex, depth),
            None => Err(unusable(format!("it has no type {name} (imported schemas are not read)"))),
        }
    }

    fn simple(&self, simple: Node<'a, 'i>, depth: usize) -> Result<ResolvedType, WsdlError> {
        let Some(restriction) = child(simple, "restriction") else {
            return Ok(plain(DataType::String));
        };
        let mut resolved = match restriction.attribute("base") {
            Some(base) => self.named_type(&self.qname(restriction, base), depth + 1)?,
            None => plain(DataType::String),
        };
        let values = restriction.children().filter(|node| node.has_tag_name((XSD, "enumeration")));
        let values = values.filter_map(|node| node.attribute("value")).map(str::to_owned);
        resolved.choices = values.collect();
        Ok(resolved)
    }

    fn complex(&self, complex: Node<'a, 'i>, depth: usize) -> Result<ResolvedType, WsdlError> {
        if let Some(content) = child(complex, "simpleContent") {
            let base =
                content.children().find_map(|node| Some(self.qname(node, node.attribute("base")?)));
            return match base {
                Some(base) => self.named_type(&base, depth + 1),
                None => Ok(plain(DataType::String)),
            };
        }
        if complex.attribute("mixed") == Some("true") {
            return Ok(plain(DataType::Raw));
        }
        let fields = self.fields(complex, depth + 1)?;
        if let [item] = &fields[..]
            && let Some(of) = rows(&item.parameter)
        {
            let items = [std::slice::from_ref(&item.name), &item.items].concat();
            return Ok(ResolvedType { data_type: DataType::Array(of), choices: Vec::new(), items });
        }
        let fields = fields.into_iter().map(|field| field.parameter).collect();
        Ok(plain(DataType::Record(fields)))
    }
}

/// The name of an element in a message. One that is not at the top of its schema is in no
/// namespace unless the schema or the element says so.
fn element_name(element: Node<'_, '_>, top: bool) -> QName {
    let schema = element.ancestors().find(|node| node.has_tag_name((XSD, "schema")));
    let of_schema = |name| schema.and_then(|schema| schema.attribute(name));
    let form = element.attribute("form").or_else(|| of_schema("elementFormDefault"));
    let qualified = top || form == Some("qualified");
    let namespace = of_schema("targetNamespace").filter(|_| qualified);
    QName::new(namespace.unwrap_or_default(), element.attribute("name").unwrap_or_default())
}

/// The array that a sequence of nothing but this number, or row of numbers, is.
fn rows(item: &Parameter) -> Option<ArrayType> {
    if !item.repeated || !item.choices.is_empty() {
        return None;
    }
    match &item.data_type {
        DataType::Array(row) => {
            (row.rank() < ArrayType::MAX_RANK).then(|| ArrayType::new(row.element, row.rank() + 1))
        }
        scalar => ElementType::from_name(&scalar.name()).map(|element| ArrayType::new(element, 1)),
    }
}

fn child<'a, 'i>(node: Node<'a, 'i>, local: &str) -> Option<Node<'a, 'i>> {
    node.children().find(|child| child.has_tag_name((XSD, local)))
}

fn plain(data_type: DataType) -> ResolvedType {
    ResolvedType { data_type, choices: Vec::new(), items: Vec::new() }
}

/// The type of ours that takes the texts of a built-in type; text where there is none.
fn built_in(name: &str) -> DataType {
    match name {
        "int" | "short" | "byte" | "unsignedShort" | "unsignedByte" => DataType::Int,
        "long" | "unsignedInt" => DataType::Long,
        "float" => DataType::Float,
        "double" => DataType::Double,
        "boolean" => DataType::Bool,
        "dateTime" => DataType::DateTime,
        "base64Binary" => DataType::Raw,
        _ => DataType::String,
    }
}

/// What an annotation tells: its text is the help, unless our own `xs:appinfo` knows better.
fn annotated(parameter: &mut Parameter, annotation: Node<'_, '_>) {
    if let Some(text) = child(annotation, "documentation").and_then(|node| node.text()) {
        parameter.help = text.to_owned();
    }
    let mut nodes = annotation.descendants();
    let Some(info) = nodes.find(|node| node.has_tag_name((PARAMETER, "parameter"))) else {
        parameter.help = parameter.help.trim().to_owned();
        return;
    };
    let told = |name: &str| info.attribute(name).map(str::to_owned);
    parameter.help = told("help").unwrap_or_default();
    parameter.unit = told("unit").unwrap_or_default();
    parameter.media_type = told("mediaType").unwrap_or_default();
    parameter.default = told("default");
    parameter.min = told("min");
    parameter.max = told("max");
    parameter.allow_leading_dash = told("allowLeadingDash").is_some();
    parameter.trim = told("trim").is_some();
    parameter.optional |= told("optional").is_some();
    if let Some(least) = told("minCount").and_then(|least| least.parse().ok()) {
        parameter.min_count = least;
    }
    let known = told("type").as_deref().and_then(DataType::from_name);
    if let Some(known) = known.filter(|known| known.is_binary() || known.as_array().is_some()) {
        parameter.data_type = known;
    }
    let choices = info.children().filter(|node| node.has_tag_name((PARAMETER, "choice")));
    let choices: Vec<String> =
        choices.map(|node| node.text().unwrap_or_default().to_owned()).collect();
    if !choices.is_empty() {
        parameter.choices = choices;
    }
}
