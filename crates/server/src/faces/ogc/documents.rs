//! The landing page, and what of the standard holds.

use serde_json::{Value, json};

use super::links::{CONFORMANCE, JOB_LIST, Link, PROCESSES};
use crate::host::Host;

/// The media types of descriptions in OpenAPI.
pub(super) const OPENAPI_30: &str = "application/vnd.oai.openapi+json;version=3.0";
pub(super) const OPENAPI_31: &str = "application/vnd.oai.openapi+json;version=3.1";

/// The conformance classes that hold.
pub(super) const CLASSES: [&str; 8] = [
    "http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/core",
    "http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/ogc-process-description",
    "http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/json",
    "http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/html",
    "http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/oas30",
    "http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/job-list",
    "http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/dismiss",
    "http://www.opengis.net/spec/ogcapi-processes-1/1.0/conf/callback",
];

/// What there is.
pub(super) fn landing(host: &Host) -> (Value, Vec<Link>) {
    let link = |path, rel, title: &str| Link::new(host, path, rel, title);
    let links = vec![
        link("", "self", "This document"),
        link("/openapi.json", "service-desc", "The API in OpenAPI 3.0").of_type(OPENAPI_30),
        link("/openapi.json?version=3.1", "service-desc", "The API in OpenAPI 3.1")
            .of_type(OPENAPI_31),
        Link::page(format!("{}/", host.settings.public_url), "service-doc", "Pages for people"),
        link("/conformance", CONFORMANCE, "What of the standard holds"),
        link("/conformance", "conformance", "What of the standard holds"),
        link("/processes", PROCESSES, "Processes"),
        link("/jobs", JOB_LIST, "Jobs"),
    ];
    let about = json!({
        "title": "Fishplate",
        "description": "Programs as services. The same services are here as SOAP, with a WSDL each.",
    });
    (about, links)
}

/// What of the standard holds.
pub(super) fn conformance(host: &Host) -> (Value, Vec<Link>) {
    let links = vec![Link::new(host, "/conformance", "self", "This document")];
    (json!({ "conformsTo": CLASSES }), links)
}
