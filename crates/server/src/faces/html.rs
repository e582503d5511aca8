//! Pages for people: what a service does, what it takes, and the commands that call it; a domain while it runs. Plain HTML
//! that needs no script and nothing from elsewhere.

pub(crate) mod domain;
mod example;

use std::fmt::Write as _;

use fishplate_contract::{Operation, Parameter, Principal, Verb};

use crate::dispatch::authorise::{Access, Action, DATA};
use crate::host::{Host, ServiceEntry};

const STYLE: &str = include_str!("html/style.css");

/// The list of the services that a caller may know of.
pub fn index(host: &Host, caller: &Principal) -> String {
    let mut body = String::from("<h1>Services</h1>\n");
    if host.services_for(caller).next().is_none() {
        body.push_str("<p>There are none yet.</p>\n");
    }
    body.push_str("<dl class=\"services\">\n");
    for entry in host.services_for(caller) {
        let service = entry.service();
        let _ = writeln!(
            body,
            "<dt><a href=\"{}\">{}</a> <code>{}</code></dt><dd>{}</dd>",
            escaped(&entry.url),
            escaped(&service.title),
            escaped(&service.name),
            escaped(first_line(&service.documentation)),
        );
    }
    body.push_str("</dl>\n");
    domain::list(&mut body, host, caller);
    let upload = Access { principal: caller, service: DATA, operation: "", action: Action::Upload };
    if host.authoriser.authorise(&upload).is_ok() {
        data(&mut body, host);
    }
    framed("Services", &body)
}

/// Where data goes, and how much there is.
fn data(body: &mut String, host: &Host) {
    let held = host.data.pool.total().unwrap_or(0);
    let _ = writeln!(
        body,
        "<h2>Data</h2>\n<p>The pool of this server holds {} MB.</p>",
        held.div_ceil(1_000_000)
    );
    if host.data.uploads.is_some() {
        let _ = writeln!(
            body,
            "<p>Put a file there; the answer is a reference to it, for calls of services here and \
             elsewhere:</p>\n<pre>curl -T FILE {}/data/</pre>",
            escaped(&host.settings.public_url)
        );
    }
}

/// A name that is no service.
pub fn not_found(host: &Host, name: &str) -> String {
    let shown = fishplate_contract::lexical::shortened(name);
    let mut body = format!(
        "<h1>No such service</h1>\n<p>There is no <code>{}</code> here.</p>\n",
        escaped(&shown)
    );
    let _ = writeln!(
        body,
        "<p><a href=\"{}/\">All services</a></p>",
        escaped(&host.settings.public_url)
    );
    framed("No such service", &body)
}

/// A service: what it does, its parameters, how to call it.
pub fn service(entry: &ServiceEntry) -> String {
    let service = entry.service();
    let mut body = format!("<h1>{}</h1>\n", escaped(&service.title));
    for paragraph in service.documentation.split("\n\n").filter(|text| !text.trim().is_empty()) {
        let _ = writeln!(body, "<p>{}</p>", escaped(paragraph.trim()));
    }
    let _ = writeln!(
        body,
        "<p class=\"facts\">WSDL: <a href=\"{url}?wsdl\">{url}?wsdl</a><br>\
         Namespace: <code>{}</code></p>",
        escaped(&service.namespace),
        url = escaped(&entry.url),
    );
    for operation in &service.operations {
        describe(&mut body, entry, operation);
    }
    let Some(jobs) = entry.provider.about_jobs() else { return framed(&service.title, &body) };
    let _ = writeln!(body, "<h2>Jobs</h2>\n<p>{jobs} These verbs are about jobs:</p>\n<dl>");
    for definition in &entry.interface.verbs {
        if !matches!(definition.verb, Verb::Call) {
            let _ = writeln!(
                body,
                "<dt><code>{}</code></dt><dd>{}</dd>",
                escaped(&definition.name),
                escaped(first_line(&definition.documentation)),
            );
        }
    }
    body.push_str("</dl>\n");
    framed(&service.title, &body)
}

fn describe(body: &mut String, entry: &ServiceEntry, operation: &Operation) {
    let _ = writeln!(body, "<h2><code>{}</code></h2>", escaped(&operation.name));
    if !operation.documentation.is_empty() {
        let _ = writeln!(body, "<p>{}</p>", escaped(&operation.documentation));
    }
    parameters(body, "Input", &operation.signature.inputs);
    parameters(body, "Output", &operation.signature.outputs);
    let _ = writeln!(
        body,
        "<h3>Call it</h3>\n<pre>{}</pre>\n<details><summary>with curl</summary>\n<pre>{}</pre></details>",
        escaped(&example::fishplate(entry, operation)),
        escaped(&example::curl(entry, operation)),
    );
}

fn parameters(body: &mut String, title: &str, parameters: &[Parameter]) {
    let _ = writeln!(body, "<h3>{title}</h3>");
    if parameters.is_empty() {
        body.push_str("<p>None.</p>\n");
        return;
    }
    body.push_str("<table>\n<tr><th>name</th><th>type</th><th>unit</th><th>about</th></tr>\n");
    for parameter in parameters {
        let _ = writeln!(
            body,
            "<tr><td><code>{}</code></td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escaped(&parameter.name),
            escaped(&type_of(parameter)),
            escaped(&parameter.unit),
            escaped(&about(parameter)),
        );
    }
    body.push_str("</table>\n");
}

fn type_of(parameter: &Parameter) -> String {
    let name = match parameter.data_type.is_binary() {
        true => format!("file ({})", parameter.data_type.name()),
        false => parameter.data_type.name().into_owned(),
    };
    if parameter.repeated { format!("{name}, {}", parameter.count_text()) } else { name }
}

fn about(parameter: &Parameter) -> String {
    let mut about = vec![parameter.help.clone()];
    if !parameter.choices.is_empty() {
        about.push(format!("One of {}.", parameter.choices.join(", ")));
    }
    match (&parameter.min, &parameter.max) {
        (Some(min), Some(max)) => about.push(format!("From {min} to {max}.")),
        (Some(min), None) => about.push(format!("At least {min}.")),
        (None, Some(max)) => about.push(format!("At most {max}.")),
        (None, None) => {}
    }
    if !parameter.media_type.is_empty() {
        about.push(format!("Media type {}.", parameter.media_type));
    }
    match &parameter.default {
        Some(default) => about.push(format!("Default: {default}.")),
        None if parameter.optional => about.push("Optional.".to_owned()),
        None => {}
    }
    about.retain(|part| !part.is_empty());
    let sentences = about.iter().map(|part| match part.ends_with(['.', '?', '!', ':']) {
        true => part.clone(),
        false => format!("{part}."),
    });
    sentences.collect::<Vec<_>>().join(" ")
}

fn framed(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n\
         <footer>Served by Fishplate {}</footer>\n</body>\n</html>\n",
        escaped(title),
        env!("CARGO_PKG_VERSION"),
    )
}

fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or("")
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use fishplate_contract::DataType;

    use super::*;

    #[test]
    fn text_of_a_description_cannot_become_markup() {
        assert_eq!(escaped("<b a='x'>&\"</b>"), "&lt;b a=&#39;x&#39;&gt;&amp;&quot;&lt;/b&gt;");
    }

    #[test]
    fn a_parameter_tells_its_range_and_default() {
        let mut parameter = Parameter::new("h", DataType::Double).help("Mesh size").default("5.5");
        parameter.min = Some("0.1".to_owned());
        assert_eq!(about(&parameter), "Mesh size. At least 0.1. Default: 5.5.");
        assert_eq!(
            type_of(&Parameter::new("m", DataType::Raw).repeated()),
            "file (raw), any number"
        );
    }
}
