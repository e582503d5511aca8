//! Pages for people: what a service does, the form that runs it, and the commands that call it; a job; a domain while it runs.
//! Made here, whole: scripts only keep them up to date, and nothing comes from elsewhere.
//!
//! Reading order: `page` (what they have in common), `form`, `job`, `events` (a job as it goes on), `watch` (who looks at it),
//! `preview` (what came of it), `jobs`, `account`, `example`, `domain`.

pub(crate) mod account;
pub(crate) mod domain;
pub(crate) mod events;
pub(crate) mod example;
pub(crate) mod form;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod page;
pub(crate) mod preview;
mod upload;
pub(crate) mod watch;

use std::fmt::Write as _;
use std::sync::Arc;

use fishplate_contract::interface::OGC;
use fishplate_contract::lexical::escaped;
use fishplate_contract::{Fault, FaultCode, Operation, Parameter, Principal, Verb};
use serde_json::Value;

use self::example::GivenValues;
use self::form::Filled;
use self::page::{Page, local};
pub use self::watch::JobWatches;
use crate::host::{Host, ServiceEntry};

/// The list of the services that a caller may know of.
pub fn index(host: &Host, caller: &Principal) -> String {
    let mut body = String::from("<h1>Services</h1>\n");
    let (own, programs): (Vec<_>, Vec<_>) =
        host.services_for(caller).partition(|entry| entry.is_built_in());
    if programs.is_empty() {
        body.push_str("<p>There is none that you may use. Who runs this server adds them: <code>fishplate serve FILE.toml</code>.</p>\n");
    }
    services(&mut body, host, &programs);
    if !own.is_empty() {
        body.push_str("<h2>For programs that call them</h2>\n");
        services(&mut body, host, &own);
    }
    domain::list(&mut body, host, caller);
    if upload::is_allowed(host, caller) {
        data(&mut body, host);
    }
    framed(host, Some(caller), "Services", &body)
}

fn services(body: &mut String, host: &Host, services: &[&Arc<ServiceEntry>]) {
    if services.is_empty() {
        return;
    }
    body.push_str("<dl class=\"services\">\n");
    for entry in services {
        let service = entry.service();
        let _ = writeln!(
            body,
            "<dt><a href=\"{}\">{}</a> <code>{}</code></dt><dd>{}</dd>",
            escaped(local(host, &entry.url)),
            escaped(&service.title),
            escaped(&service.name),
            escaped(first_line(&service.documentation)),
        );
    }
    body.push_str("</dl>\n");
}

/// Where data goes, and how much there is.
fn data(body: &mut String, host: &Host) {
    let held = host.data.pool.total().unwrap_or(0);
    let _ = writeln!(
        body,
        "<h2>Data</h2>\n<p>The pool of this server holds {} MB.</p>",
        held.div_ceil(1_000_000)
    );
    upload::how(body, host);
}

/// A name that is no service.
pub fn not_found(host: &Host, caller: &Principal, name: &str) -> String {
    let shown = fishplate_contract::lexical::shortened(name);
    let mut body = format!(
        "<h1>No such service</h1>\n<p>There is no <code>{}</code> here.</p>\n",
        escaped(&shown)
    );
    body.push_str(&all_services(host));
    framed(host, Some(caller), "No such service", &body)
}

/// Why there is no page; who asks is not always known.
pub(crate) fn refused(host: &Host, caller: Option<&Principal>, fault: &Fault) -> String {
    let heading = match fault.code {
        FaultCode::UnknownService | FaultCode::UnknownOperation => "There is nothing here",
        FaultCode::NoSuchJob => "No such job",
        FaultCode::Unauthenticated => "Who are you?",
        FaultCode::Forbidden => "Not allowed",
        FaultCode::NotFinished => "Not finished yet",
        FaultCode::Unavailable | FaultCode::QueueFull => "Not now",
        _ => "It did not work",
    };
    let body = format!(
        "<h1>{heading}</h1>\n<p class=\"message\">{}{}</p>\n{}{}",
        escaped(&fault.message),
        limit(fault),
        next_step(host, fault),
        all_services(host)
    );
    framed(host, caller, heading, &body)
}

/// The limit that a fault is about, to stand behind its message.
fn limit(fault: &Fault) -> String {
    fault.limit.as_ref().map_or_else(String::new, |limit| {
        format!(" (limit {}: {})", escaped(&limit.name), escaped(&limit.value))
    })
}

/// What somebody can do who was refused.
fn next_step(host: &Host, fault: &Fault) -> String {
    let base = escaped(host.public_path());
    let step = match fault.code {
        FaultCode::NoSuchJob => format!(
            "Jobs are kept for a while when they have ended, and everybody sees their own. <a href=\"{base}/ogc/jobs\">Your jobs</a>"
        ),
        FaultCode::Unauthenticated => {
            "Load this page again, and give the name and the password that you have from who runs this server.".to_owned()
        }
        FaultCode::Forbidden => "Who runs this server says who may do what.".to_owned(),
        _ => match fault.retry_after {
            Some(wait) => format!("Try again in {} s.", wait.as_secs().max(1)),
            None => return String::new(),
        },
    };
    format!("<p>{step}</p>\n")
}

fn all_services(host: &Host) -> String {
    format!("<p><a href=\"{}/\">All services</a></p>\n", escaped(host.public_path()))
}

/// What holds of the standard that JSON's addresses follow.
pub(crate) fn conformance(host: &Host, caller: &Principal, classes: &[&str]) -> String {
    let mut body = String::from("<h1>Conformance</h1>\n<ul>\n");
    for class in classes {
        let _ = writeln!(body, "<li><code>{}</code></li>", escaped(class));
    }
    body.push_str("</ul>\n");
    framed(host, Some(caller), "Conformance", &body)
}

/// The API, as its document in OpenAPI tells it.
pub(crate) fn openapi(host: &Host, caller: &Principal, document: &Value) -> String {
    let base = escaped(host.public_path());
    let mut body = format!(
        "<h1>OpenAPI</h1>\n<p>For programs: <a href=\"{base}/{OGC}/openapi.json?f=json\">OpenAPI 3.0</a>, \
         <a href=\"{base}/{OGC}/openapi.json?f=json&amp;version=3.1\">OpenAPI 3.1</a>. Paths below <code>{base}/{OGC}</code>:</p>\n\
         <div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Operations\"><table>\n<thead><tr><th scope=\"col\">method</th>\
         <th scope=\"col\">path</th><th scope=\"col\">about</th></tr></thead>\n<tbody>\n"
    );
    for (path, operations) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in operations.as_object().into_iter().flatten() {
            let _ = writeln!(
                body,
                "<tr><td>{}</td><td><code>{}</code></td><td>{}</td></tr>",
                escaped(&method.to_uppercase()),
                escaped(path),
                escaped(operation["summary"].as_str().unwrap_or_default()),
            );
        }
    }
    body.push_str("</tbody></table></div>\n");
    framed(host, Some(caller), "OpenAPI", &body)
}

/// A service: what it does, the forms that run it, its parameters, how to call it.
pub(crate) fn service(
    host: &Host,
    caller: &Principal,
    entry: &ServiceEntry,
    filled: Filled<'_>,
) -> String {
    let service = entry.service();
    let mut body = format!("<h1>{}</h1>\n", escaped(&service.title));
    for paragraph in service.documentation.split("\n\n").filter(|text| !text.trim().is_empty()) {
        let _ = writeln!(body, "<p>{}</p>", escaped(paragraph.trim()));
    }
    for operation in &service.operations {
        if service.operations.len() > 1 {
            let _ = writeln!(body, "<h2><code>{}</code></h2>", escaped(&operation.name));
        }
        if !operation.documentation.is_empty() && operation.documentation != service.documentation {
            let _ = writeln!(body, "<p>{}</p>", escaped(&operation.documentation));
        }
        form::write(&mut body, host, caller, entry, operation, filled);
        describe(&mut body, host, entry, operation);
    }
    let _ = writeln!(
        body,
        "<h2>For programs</h2>\n<p class=\"facts\">WSDL: <a href=\"{local}?wsdl\">{url}?wsdl</a><br>\
         Namespace: <code>{}</code></p>",
        escaped(&service.namespace),
        local = escaped(local(host, &entry.url)),
        url = escaped(&entry.url),
    );
    verbs(&mut body, entry);
    let scripts = &["upload.js", "directory.js", "form.js", "example.js"];
    let page = Page { title: &service.title, scripts, ..Page::default() };
    page.write(host, Some(caller), &body)
}

/// The verbs about jobs.
fn verbs(body: &mut String, entry: &ServiceEntry) {
    let Some(jobs) = entry.provider.about_jobs() else { return };
    let _ = writeln!(
        body,
        "<details><summary>Jobs</summary>\n<p>{jobs} These verbs are about jobs:</p>\n<dl>"
    );
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
    body.push_str("</dl></details>\n");
}

fn describe(body: &mut String, host: &Host, entry: &ServiceEntry, operation: &Operation) {
    body.push_str("<details><summary>Inputs and outputs</summary>\n");
    parameters(body, "Input", &operation.signature.inputs);
    parameters(body, "Output", &operation.signature.outputs);
    body.push_str("</details>\n<details><summary>Call it from a program</summary>\n");
    example::write(body, host, entry, operation, &GivenValues::default());
    body.push_str("</details>\n");
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

fn framed(host: &Host, caller: Option<&Principal>, title: &str, body: &str) -> String {
    Page { title, ..Page::default() }.write(host, caller, body)
}

fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or("")
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
