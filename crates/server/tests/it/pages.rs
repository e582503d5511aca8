//! The pages for people.

use crate::bed::Setup;

const SERVICE: &str = "
name = 'heat'
title = 'Heat <& conduction>'
documentation = 'Solves the heat equation.'
command = './heat [in val h:double] [in val kind:string] > [out file text:string]'

[input.h]
help = 'Mesh size'
unit = 'mm'
min = 0.1
max = 10
default = 5.5

[input.kind]
choices = ['steady', 'transient']
";

#[test]
fn the_index_lists_services_for_people_and_for_programs() {
    let server = Setup::new().with("heat", SERVICE, "").with_matrix().serve();
    let page = server.get("/");
    assert_eq!(page.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(page.field("vary"), Some("accept"));
    for part in ["Heat &lt;&amp; conduction&gt;", "<code>matrix</code>", "<code>session</code>"] {
        assert!(page.text().contains(part), "no {part}: {}", page.text());
    }
    let listed = server.exchange("GET", "/", "Accept: application/json\r\n", b"");
    assert_eq!(listed.field("content-type"), Some("application/json"));
    let url = format!("\"url\":\"http://{}/heat\"", server.address);
    assert!(listed.text().contains(&url), "{}", listed.text());
}

#[test]
fn a_services_page_tells_its_parameters_and_how_to_call_it() {
    let server = Setup::new().with("heat", SERVICE, "").serve();
    let page = server.get("/heat");
    assert_eq!(page.status, 200);
    let policy = page.field("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'"), "{policy}");
    for part in [
        "Heat &lt;&amp; conduction&gt;",
        "Solves the heat equation.",
        "Mesh size. From 0.1 to 10. Default: 5.5.",
        "<td>mm</td>",
        "One of steady, transient.",
        "<code>spawn</code>",
        &format!("http://{}/heat?wsdl", server.address),
    ] {
        assert!(page.text().contains(part), "no {part}: {}", page.text());
    }
    assert!(!page.text().contains("<& conduction>"));
}

#[test]
fn what_is_not_there_is_a_page_that_leads_on() {
    let server = Setup::new().serve();
    let page = server.get("/%3Cscript%3E");
    assert_eq!(page.status, 404);
    assert!(page.text().contains("All services"), "{}", page.text());
    assert!(!page.text().contains("<script>"), "{}", page.text());
}
