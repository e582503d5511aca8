//! The push tokenizer.
//!
//! Invariants:
//! - `held` is not empty only in the states [`State::Markup`], [`State::Reference`] and
//!   [`State::Declaration`]; it then begins with `<` or `&`, and is what the chunks so far held of
//!   one token. It never exceeds `tag_size`.
//! - `open` has an entry for each element that is open; `names` holds their names one after
//!   another.

use encoding_rs::Encoding;
use fishplate_contract::Fault;
use memchr::{memchr, memchr2, memchr3, memmem};

use super::decode::Decoder;
use super::namespaces::Namespaces;
use super::run::RunNames;
use super::tag::{self, Attribute, StartTag, TagError};
use super::{XmlError, is_space};
use crate::limits::{WireLimits, exceeded};

/// Takes tokens. What it refuses ends the reading.
pub trait Handler {
    /// An element begins; an empty one ends at once.
    fn start(&mut self, tag: &StartTag<'_>) -> Result<(), Fault>;

    /// The element begun last that is still open ends; its name as it stands, prefix included.
    fn end(&mut self, raw: &str) -> Result<(), Fault>;

    /// Text in the element begun last: references resolved, line ends made `\n` unless
    /// [`Handler::takes_raw_text`], in pieces.
    fn text(&mut self, text: &str) -> Result<(), Fault>;

    /// A comment as it stands, delimiters included, in pieces.
    fn comment(&mut self, _piece: &str) -> Result<(), Fault> {
        Ok(())
    }

    /// Whether text is wanted as it stands, line ends included: where white space has no meaning.
    fn takes_raw_text(&self) -> bool {
        false
    }

    /// Takes the run of plain elements that the text begins with, as if they had been read one by
    /// one, and gives its length; the tokenizer reads on from there. Asked behind an element that had
    /// neither attributes nor elements in it.
    fn run(&mut self, _run: &RunNames<'_>, _text: &str) -> Result<usize, Fault> {
        Ok(0)
    }

    /// Whether [`Handler::run`] may take anything here.
    fn takes_runs(&self) -> bool {
        false
    }

    /// Whether the limit `children` holds here: it bounds what is kept, not what is passed on.
    fn counts_children(&self) -> bool {
        true
    }
}

/// Reads one document.
pub struct Tokenizer {
    decoder: Decoder,
    machine: StateMachine,
}

impl Tokenizer {
    /// Ready for the first chunk. `charset` is what the media type tells.
    pub fn new(charset: Option<&'static Encoding>, limits: &WireLimits) -> Self {
        Self { decoder: Decoder::new(charset), machine: StateMachine::new(limits.clone()) }
    }

    /// Takes a chunk, cut anywhere.
    ///
    /// # Errors
    /// What is wrong with the document so far; what the handler refuses.
    pub fn feed(&mut self, chunk: &[u8], to: &mut dyn Handler) -> Result<(), Fault> {
        let machine = &mut self.machine;
        self.decoder.feed(chunk, false, &mut |text| machine.feed(text, to))
    }

    /// The document has ended.
    ///
    /// # Errors
    /// If it ended too early.
    pub fn finish(&mut self, to: &mut dyn Handler) -> Result<(), Fault> {
        let machine = &mut self.machine;
        self.decoder.feed(&[], true, &mut |text| machine.feed(text, to))?;
        self.machine.finish()
    }

    /// Bytes read so far, as UTF-8.
    pub fn position(&self) -> u64 {
        self.machine.position
    }
}

struct StateMachine {
    limits: WireLimits,
    state: State,
    held: String,
    names: String,
    open: Vec<OpenTag>,
    namespaces: Namespaces,
    /// Bytes before the chunk at hand.
    position: u64,
    /// Nothing was read yet: an XML declaration may stand here.
    at_start: bool,
    /// The root element was seen.
    rooted: bool,
    /// The text before ended with a carriage return: a line feed belongs to it.
    after_return: bool,
    leaf: Leaf,
    /// Name of the leaf that ended last.
    leaf_name: String,
}

/// Whether the element begun last is one that a run may follow.
enum Leaf {
    /// It is not, or something else came since it ended.
    None,
    /// It had no attributes, and nothing but text so far.
    Open,
    /// It has ended.
    Ended,
}

enum State {
    Text,
    /// After `<`, until it is known what it begins, and then in a tag.
    Markup {
        quote: Option<u8>,
    },
    /// After `&`.
    Reference,
    /// In `<?xml ... ?>`.
    Declaration,
    /// In a comment, after so many dashes (two at most).
    Comment(u8),
    /// In a CDATA section, after so many brackets (two at most), which are held back.
    Cdata(u8),
}

struct OpenTag {
    /// Where its name begins in `names`.
    name: usize,
    /// How many namespace declarations were in scope before it.
    bindings: usize,
    children: usize,
}

/// What `<` begins.
enum MarkupKind {
    Tag,
    Comment,
    Cdata,
    Declaration,
    /// More is needed to tell.
    Unclear,
}

/// What the names of open elements take together, and how many they are, in most messages.
const NAMES: usize = 128;
const DEPTH: usize = 8;

/// Longest reference that could be one: `&#x10FFFF;` with room for leading zeros.
const REFERENCE: usize = 32;

impl StateMachine {
    fn new(limits: WireLimits) -> Self {
        Self {
            limits,
            state: State::Text,
            held: String::new(),
            names: String::with_capacity(NAMES),
            open: Vec::with_capacity(DEPTH),
            namespaces: Namespaces::default(),
            position: 0,
            at_start: true,
            rooted: false,
            after_return: false,
            leaf: Leaf::None,
            leaf_name: String::new(),
        }
    }

    fn feed(&mut self, chunk: &str, to: &mut dyn Handler) -> Result<(), Fault> {
        let mut rest = chunk;
        while !rest.is_empty() {
            let before = rest.len();
            rest = match self.state {
                State::Text => match self.leaf_run(rest, to)? {
                    0 => self.text_run(rest, to)?,
                    run => &rest[run..],
                },
                State::Markup { quote } => self.markup(quote, rest, to)?,
                State::Reference => self.reference(rest, to)?,
                State::Declaration => self.declaration(rest)?,
                State::Comment(dashes) => self.comment(dashes, rest, to)?,
                State::Cdata(brackets) => self.cdata(brackets, rest, to)?,
            };
            self.position += (before - rest.len()) as u64;
        }
        Ok(())
    }

    fn finish(&self) -> Result<(), Fault> {
        if let Some(open) = self.open.last() {
            let name = &self.names[open.name..];
            return Err(self.malformed(format!("it ends within the element {name}")));
        }
        if !self.rooted {
            return Err(self.malformed("it ends before its first element"));
        }
        match self.state {
            State::Text => Ok(()),
            _ => Err(self.malformed("it ends within a tag or comment")),
        }
    }

    fn malformed(&self, what: impl Into<String>) -> Fault {
        XmlError::Malformed { what: what.into(), at: self.position }.into()
    }

    fn forbidden(&self, what: &'static str) -> Fault {
        XmlError::Forbidden { what, at: self.position }.into()
    }

    /// Reads a run of plain elements; gives its length.
    fn leaf_run(&self, rest: &str, to: &mut dyn Handler) -> Result<usize, Fault> {
        if !matches!(self.leaf, Leaf::Ended) || !to.takes_runs() {
            return Ok(0);
        }
        let mut rows = Vec::new();
        let (mut name_end, mut bindings) = (self.names.len(), self.namespaces.len());
        for open in self.open.iter().rev() {
            if open.bindings != bindings {
                break;
            }
            rows.push(&self.names[open.name..name_end]);
            (name_end, bindings) = (open.name, open.bindings);
        }
        to.run(&RunNames { leaf: &self.leaf_name, rows }, rest)
    }

    fn text_run<'t>(&mut self, rest: &'t str, to: &mut dyn Handler) -> Result<&'t str, Fault> {
        let end = memchr2(b'<', b'&', rest.as_bytes()).unwrap_or(rest.len());
        let (run, rest) = rest.split_at(end);
        self.text(run, to)?;
        match rest.as_bytes().first() {
            Some(b'<') => self.state = State::Markup { quote: None },
            Some(_) => self.state = State::Reference,
            None => {}
        }
        Ok(rest)
    }

    /// Passes text on with its line ends made `\n` (XML 1.0 section 2.11).
    fn text(&mut self, run: &str, to: &mut dyn Handler) -> Result<(), Fault> {
        if run.is_empty() {
            return Ok(());
        }
        self.at_start = false;
        if self.open.is_empty() {
            return match run.bytes().all(is_space) {
                true => Ok(()),
                false => Err(self.malformed("text outside the root element")),
            };
        }
        if to.takes_raw_text() {
            return to.text(run);
        }
        let mut run = run;
        if std::mem::take(&mut self.after_return) {
            run = run.strip_prefix('\n').unwrap_or(run);
        }
        while let Some(at) = memchr(b'\r', run.as_bytes()) {
            if at > 0 {
                to.text(&run[..at])?;
            }
            to.text("\n")?;
            run = &run[at + 1..];
            self.after_return = run.is_empty();
            run = run.strip_prefix('\n').unwrap_or(run);
        }
        if run.is_empty() { Ok(()) } else { to.text(run) }
    }

    fn reference<'t>(&mut self, rest: &'t str, to: &mut dyn Handler) -> Result<&'t str, Fault> {
        self.after_return = false;
        let Some(end) = memchr(b';', rest.as_bytes()) else {
            self.held.push_str(rest);
            if self.held.len() > REFERENCE {
                return Err(self.unknown_reference());
            }
            return Ok("");
        };
        let (reference, rest) = rest.split_at(end + 1);
        self.held.push_str(reference);
        let resolved = match self.held.len() {
            len if len > REFERENCE => None,
            len => tag::resolve(&self.held[1..len - 1]),
        };
        let Some(c) = resolved else { return Err(self.unknown_reference()) };
        if self.open.is_empty() {
            return Err(self.malformed("a reference outside the root element"));
        }
        self.held.clear();
        self.state = State::Text;
        to.text(c.encode_utf8(&mut [0; 4]))?;
        Ok(rest)
    }

    fn unknown_reference(&self) -> Fault {
        let digits = self.held.strip_prefix("&#").is_some();
        let what = "a reference to an entity that is not one of the five predefined ones";
        if digits {
            self.malformed("a character reference that is none")
        } else {
            self.forbidden(what)
        }
    }

    fn markup<'t>(
        &mut self,
        quote: Option<u8>,
        rest: &'t str,
        to: &mut dyn Handler,
    ) -> Result<&'t str, Fault> {
        self.after_return = false;
        if self.held.len() < 2 {
            return self.markup_begins(rest, to);
        }
        if matches!(self.held.as_bytes()[1], b'!' | b'?') {
            return self.markup_begins(rest, to);
        }
        let mut quote = quote;
        let Some(end) = tag_end(&mut quote, rest) else {
            self.state = State::Markup { quote };
            self.hold(rest)?;
            return Ok("");
        };
        self.hold(&rest[..end])?;
        let held = std::mem::take(&mut self.held);
        self.tag(&held[1..], to)?;
        self.held = held;
        self.held.clear();
        Ok(&rest[end + 1..])
    }

    /// At `<`, or in what follows it as long as it is unclear what it begins.
    fn markup_begins<'t>(&mut self, rest: &'t str, to: &mut dyn Handler) -> Result<&'t str, Fault> {
        if self.held.is_empty() {
            match self.begins(rest)? {
                MarkupKind::Tag => {
                    let mut quote = None;
                    if let Some(end) = tag_end(&mut quote, &rest[1..]) {
                        self.check_tag_size(end)?;
                        self.tag(&rest[1..=end], to)?;
                        return Ok(&rest[end + 2..]);
                    }
                    self.state = State::Markup { quote };
                    self.hold(rest)?;
                    return Ok("");
                }
                MarkupKind::Unclear => {
                    self.held.push_str(rest);
                    return Ok("");
                }
                begins => return self.begin(&begins, rest, 0, to),
            }
        }
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let before = self.held.len();
        self.held.push_str(&rest[..first]);
        let held = std::mem::take(&mut self.held);
        let begins = self.begins(&held)?;
        match begins {
            MarkupKind::Unclear => self.held = held,
            MarkupKind::Tag => {
                // A character that ends the tag (`<>`) must be seen by the scan.
                self.held = held;
                self.held.truncate(before);
                let mut quote = None;
                if tag_end(&mut quote, &rest[..first]) == Some(0) {
                    return Err(self.malformed("an empty tag"));
                }
                self.held.push_str(&rest[..first]);
                self.state = State::Markup { quote };
            }
            begins => {
                self.begin(&begins, &held, before, to)?;
                if matches!(self.state, State::Declaration) {
                    self.held = held;
                }
            }
        }
        Ok(&rest[first..])
    }

    /// Enters a comment, a CDATA section or the declaration that begins `text`, of which `before`
    /// bytes came with earlier chunks.
    fn begin<'t>(
        &mut self,
        begins: &MarkupKind,
        text: &'t str,
        before: usize,
        to: &mut dyn Handler,
    ) -> Result<&'t str, Fault> {
        let (state, len) = match begins {
            MarkupKind::Comment => (State::Comment(0), "<!--".len()),
            MarkupKind::Cdata if self.open.is_empty() => {
                return Err(self.malformed("a CDATA section outside the root element"));
            }
            MarkupKind::Cdata => (State::Cdata(0), "<![CDATA[".len()),
            _ => (State::Declaration, 0),
        };
        self.state = state;
        self.at_start = false;
        if matches!(begins, MarkupKind::Comment) && !self.open.is_empty() {
            to.comment("<!--")?;
        }
        Ok(if before == 0 { &text[len..] } else { "" })
    }

    fn begins(&self, text: &str) -> Result<MarkupKind, Fault> {
        match text.as_bytes() {
            [_, b'?', ..] if self.at_start => Ok(MarkupKind::Declaration),
            [_, b'?', ..] => Err(self.forbidden("a processing instruction")),
            [_, b'!', rest @ ..] if rest.starts_with(b"--") => Ok(MarkupKind::Comment),
            [_, b'!', rest @ ..] if rest.starts_with(b"[CDATA[") => Ok(MarkupKind::Cdata),
            [_, b'!', rest @ ..] if b"--".starts_with(rest) || b"[CDATA[".starts_with(rest) => {
                Ok(MarkupKind::Unclear)
            }
            [_, b'!', ..] => Err(self.forbidden("a DOCTYPE or another declaration")),
            [_] => Ok(MarkupKind::Unclear),
            _ => Ok(MarkupKind::Tag),
        }
    }

    fn declaration<'t>(&mut self, rest: &'t str) -> Result<&'t str, Fault> {
        let from = self.held.len().saturating_sub(1);
        let take = memchr(b'>', rest.as_bytes()).map_or(rest.len(), |at| at + 1);
        self.hold(&rest[..take])?;
        if memmem::find(&self.held.as_bytes()[from..], b"?>").is_none() {
            return Ok(&rest[take..]);
        }
        let target = self.held.strip_prefix("<?xml").and_then(|rest| rest.strip_suffix("?>"));
        if !target.is_some_and(|rest| rest.bytes().next().is_some_and(is_space)) {
            return Err(self.forbidden("a processing instruction"));
        }
        self.held.clear();
        self.state = State::Text;
        Ok(&rest[take..])
    }

    fn comment<'t>(
        &mut self,
        dashes: u8,
        rest: &'t str,
        to: &mut dyn Handler,
    ) -> Result<&'t str, Fault> {
        let (taken, state) = match rest.as_bytes()[0] {
            b'-' => (1, State::Comment((dashes + 1).min(2))),
            b'>' if dashes == 2 => (1, State::Text),
            _ => (memchr(b'-', rest.as_bytes()).unwrap_or(rest.len()), State::Comment(0)),
        };
        self.state = state;
        if !self.open.is_empty() {
            to.comment(&rest[..taken])?;
        }
        Ok(&rest[taken..])
    }

    fn cdata<'t>(
        &mut self,
        brackets: u8,
        rest: &'t str,
        to: &mut dyn Handler,
    ) -> Result<&'t str, Fault> {
        match rest.as_bytes()[0] {
            b']' if brackets == 2 => {
                self.text("]", to)?;
                Ok(&rest[1..])
            }
            b']' => {
                self.state = State::Cdata(brackets + 1);
                Ok(&rest[1..])
            }
            b'>' if brackets == 2 => {
                self.after_return = false;
                self.state = State::Text;
                Ok(&rest[1..])
            }
            _ => {
                self.text(&"]]"[..usize::from(brackets)], to)?;
                let end = memchr(b']', rest.as_bytes()).unwrap_or(rest.len());
                self.text(&rest[..end], to)?;
                self.state = State::Cdata(0);
                Ok(&rest[end..])
            }
        }
    }

    fn hold(&mut self, piece: &str) -> Result<(), Fault> {
        self.check_tag_size(self.held.len() + piece.len())?;
        self.held.push_str(piece);
        Ok(())
    }

    fn check_tag_size(&self, len: usize) -> Result<(), Fault> {
        let most = self.limits.tag_size;
        if len > most { Err(exceeded("tag_size", most as u64, "bytes")) } else { Ok(()) }
    }

    /// A whole tag, without its angle brackets.
    fn tag(&mut self, tag: &str, to: &mut dyn Handler) -> Result<(), Fault> {
        self.state = State::Text;
        self.at_start = false;
        match tag.strip_prefix('/') {
            Some(name) => self.end(name.trim_end_matches([' ', '\t', '\r', '\n']), to),
            None => self.start(tag, to),
        }
    }

    fn end(&mut self, name: &str, to: &mut dyn Handler) -> Result<(), Fault> {
        let Some(open) = self.open.last() else {
            return Err(self.malformed("an end tag without its start tag"));
        };
        let expected = &self.names[open.name..];
        if expected != name {
            return Err(self.malformed(format!(
                "the end tag {:?} where {expected} ends",
                fishplate_contract::lexical::shortened(name)
            )));
        }
        to.end(name)?;
        self.leaf = match self.leaf {
            Leaf::Open => {
                self.leaf_name.clear();
                self.leaf_name.push_str(name);
                Leaf::Ended
            }
            _ => Leaf::None,
        };
        self.close();
        Ok(())
    }

    fn close(&mut self) {
        if let Some(open) = self.open.pop() {
            self.names.truncate(open.name);
            self.namespaces.truncate(open.bindings);
        }
    }

    fn start(&mut self, tag: &str, to: &mut dyn Handler) -> Result<(), Fault> {
        let raw = tag::parse(tag, self.limits.attributes).map_err(|error| match error {
            TagError::Malformed(what) => self.malformed(what),
            TagError::TooManyAttributes => {
                exceeded("attributes", self.limits.attributes as u64, "in an element")
            }
        })?;
        self.open(raw.name, to.counts_children())?;
        let plain = raw.attributes.is_empty() && raw.declarations.is_empty() && !raw.empty;
        self.leaf = if plain { Leaf::Open } else { Leaf::None };
        for (prefix, uri) in &raw.declarations {
            self.namespaces.declare(prefix, uri);
        }
        if self.namespaces.len() > self.limits.namespaces {
            return Err(exceeded("namespaces", self.limits.namespaces as u64, "in scope"));
        }
        let (namespace, local) = self.resolve(raw.name, true)?;
        let mut attributes = Vec::with_capacity(raw.attributes.len());
        for (name, value) in raw.attributes {
            let (namespace, local) = self.resolve(name, false)?;
            let attribute = Attribute { namespace, local, raw: name, value };
            let twin = |other: &Attribute<'_>| {
                other.local == attribute.local && other.namespace == attribute.namespace
            };
            if attributes.iter().any(twin) {
                return Err(self.malformed(format!("attribute {name} stands twice")));
            }
            attributes.push(attribute);
        }
        let namespaces = &self.namespaces;
        let end = if raw.empty { end_tag_len(raw.name) } else { 0 };
        let len = (tag.len() + "<>".len()).saturating_sub(end);
        to.start(&StartTag {
            namespace,
            local,
            raw: raw.name,
            attributes: &attributes,
            declarations: &raw.declarations,
            namespaces,
            len,
        })?;
        if raw.empty {
            to.end(raw.name)?;
            self.close();
        }
        Ok(())
    }

    /// Notes that an element of that name is open.
    fn open(&mut self, name: &str, counted: bool) -> Result<(), Fault> {
        match self.open.last_mut() {
            Some(parent) => {
                parent.children += usize::from(counted);
                if parent.children > self.limits.children {
                    return Err(exceeded("children", self.limits.children as u64, "in an element"));
                }
            }
            None if self.rooted => return Err(self.malformed("a second root element")),
            None => self.rooted = true,
        }
        if self.open.len() == self.limits.xml_depth {
            return Err(exceeded("xml_depth", self.limits.xml_depth as u64, "elements"));
        }
        let bindings = self.namespaces.len();
        self.open.push(OpenTag { name: self.names.len(), bindings, children: 0 });
        self.names.push_str(name);
        Ok(())
    }

    /// Namespace and local name. The default namespace is for elements only.
    fn resolve<'n>(&'n self, name: &'n str, element: bool) -> Result<(&'n str, &'n str), Fault> {
        let (prefix, local) = match memchr(b':', name.as_bytes()) {
            Some(colon) => (&name[..colon], &name[colon + 1..]),
            None if element => ("", name),
            None => return Ok(("", name)),
        };
        match self.namespaces.resolve(prefix) {
            Some(namespace) => Ok((namespace, local)),
            None => Err(self.malformed(format!("the prefix {prefix} is not declared"))),
        }
    }
}

/// Bytes of an end tag.
pub(crate) fn end_tag_len(raw: &str) -> usize {
    "</>".len() + raw.len()
}

/// Where the `>` is that ends the tag, quotes heeded.
fn tag_end(quote: &mut Option<u8>, text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        let rest = &bytes[at..];
        match *quote {
            Some(mark) => {
                at += memchr(mark, rest)? + 1;
                *quote = None;
            }
            None => {
                at += memchr3(b'>', b'"', b'\'', rest)?;
                if bytes[at] == b'>' {
                    return Some(at);
                }
                *quote = Some(bytes[at]);
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests;
