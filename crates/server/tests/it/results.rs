//! What people see of results, of their jobs, and of their account; and the calls that a service's page shows.

use fishplate_contract::ElementType;
use fishplate_formats::array_file::npy::NpyHeader;
use serde_json::json;

use crate::bed::{Answer, Server, Setup, until};

const BROWSER: &str = "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n";

/// It copies what is beside its service file.
const GALLERY: &str = "name = 'gallery'
title = 'Gallery'
command = './gallery [in val n:int]'
[output.n]
type = 'string'
path = 'n'
[output.picture]
type = 'raw'
path = 'picture'
[output.page]
type = 'raw'
media_type = 'text/html'
path = 'page.html'
[output.table]
type = 'raw'
path = 'table.csv'
[output.grid]
type = 'double[r,c]'
path = 'grid.npy'
format = 'npy'
[output.steps]
type = 'raw'
glob = 'steps/*'
[output.folder]
type = 'dir'
path = 'folder'
";

const SCRIPT: &str = r#"printf '<b>%s' "$1" > n
printf '\211PNG\r\n\032\nrest' > picture
printf '<script>alert(1)</script>' > page.html
printf 'a,b\n1,"<2>"\n' > table.csv
cp HERE/grid.npy grid.npy
mkdir steps folder
printf one > steps/1.txt; printf two > 'steps/2 <b>.txt'
printf x > folder/inner.txt"#;

/// A server with the gallery; `rows` of its grid, 1000 numbers each.
fn gallery(rows: u64, set: impl FnOnce(&mut Setup)) -> Server {
    let setup = Setup::new();
    let script = SCRIPT.replace("HERE", &setup.directory.path().display().to_string());
    let mut setup = setup.with("gallery", GALLERY, &script);
    let mut file = NpyHeader::print(ElementType::Double, &[rows, 1000]);
    file.extend((0..rows * 1000).flat_map(|number| (number as f64).to_le_bytes()));
    std::fs::write(setup.directory.path().join("grid.npy"), file).unwrap();
    set(&mut setup);
    setup.serve()
}

fn page(server: &Server, path: &str) -> Answer {
    server.exchange("GET", path, BROWSER, b"")
}

/// The path of a job of the gallery that is done.
fn done(server: &Server) -> String {
    let request = json!({ "inputs": { "n": 7 } }).to_string();
    let fields = "Content-Type: application/json\r\nPrefer: respond-async\r\n";
    let path = "/ogc/processes/gallery/execution";
    let answer = server.exchange("POST", path, fields, request.as_bytes());
    let place = answer.field("location").unwrap_or_else(|| panic!("{answer:?}")).to_owned();
    let job = place.strip_prefix(&format!("http://{}", server.address)).unwrap().to_owned();
    until("the job is done", || page(server, &job).text().contains("class=\"pill done\""));
    job
}

#[test]
fn results_are_shown_each_as_what_it_is() {
    let server = gallery(3, |_| {});
    let job = done(&server);
    let shown = page(&server, &job).text().to_owned();
    for part in [
        "<td>&lt;b&gt;7</td>",
        "class=\"picture\" src=\"/ogc/jobs/",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "<th scope=\"col\">b</th>",
        "<td>&lt;2&gt;</td>",
        "src=\"data:image/png;base64,",
        "float64, 3 x 1000, from 0 to 2999.",
        "<code>steps/2 &lt;b&gt;.txt</code>",
        "<code>inner.txt</code>",
        "results/steps?item=1",
    ] {
        assert!(shown.contains(part), "no {part}: {shown}");
    }
    assert!(!shown.contains("<script>alert") && !shown.contains("<b>7"), "{shown}");
    let results = page(&server, &format!("{job}/results"));
    assert_eq!(
        (results.status, results.field("location")),
        (303, Some(&*format!("{job}#results")))
    );
}

#[test]
fn each_value_is_had_alone_and_never_as_a_page() {
    let server = gallery(3, |_| {});
    let job = done(&server);
    for (item, media_type, name, bytes) in [
        ("n?item=0", "application/octet-stream", "n.txt", &b"<b>7"[..]),
        ("picture?item=0", "image/png", "picture", b"\x89PNG\r\n\x1a\nrest"),
        ("page?item=0", "text/html", "page.html", b"<script>alert(1)</script>"),
        ("steps?item=0", "application/octet-stream", "1.txt", b"one"),
        ("steps?item=1", "application/octet-stream", "2 _b_.txt", b"two"),
    ] {
        let answer = page(&server, &format!("{job}/results/{item}"));
        assert_eq!((answer.status, &answer.body[..]), (200, bytes), "{item}: {answer:?}");
        assert_eq!(answer.field("content-type"), Some(media_type), "{item}");
        let disposition = answer.field("content-disposition").unwrap();
        assert!(
            disposition.starts_with(&format!("attachment; filename=\"{name}\"")),
            "{disposition}"
        );
        assert_eq!(answer.field("x-content-type-options"), Some("nosniff"), "{item}");
        assert!(answer.field("content-security-policy").unwrap().contains("sandbox"), "{item}");
    }
    let grid = server.get(&format!("{job}/results/grid?item=0"));
    let header = NpyHeader::parse(&grid.body).unwrap();
    assert_eq!((header.shape, grid.body.len()), (vec![3, 1000], header.offset + 24_000));
    let folder = server.get(&format!("{job}/results/folder?item=0"));
    assert_eq!(&folder.body[257..262], b"ustar");
    // In parts, and not again what is known.
    let path = format!("{job}/results/steps?item=1");
    let part = server.exchange("GET", &path, "Range: bytes=1-\r\n", b"");
    assert_eq!((part.status, &part.body[..]), (206, &b"wo"[..]));
    let tag = format!("If-None-Match: {}\r\n", part.field("etag").unwrap());
    assert_eq!(server.exchange("GET", &path, &tag, b"").status, 304);
    for (item, status) in [("steps?item=2", 400), ("steps?item=x", 400), ("nothing?item=0", 404)] {
        assert_eq!(server.get(&format!("{job}/results/{item}")).status, status, "{item}");
    }
}

#[test]
fn no_more_of_an_array_is_read_than_preview_size() {
    let server = gallery(600, |setup| setup.limits.faces.preview_size = 100_000);
    let job = done(&server);
    let shown = page(&server, &job).text().to_owned();
    // As many rows as columns: 111 by 111 numbers of 8 bytes are not more than that.
    let seen = 111 * 111;
    assert!(shown.contains(&format!("{seen} numbers were looked at.")), "{shown}");
    assert!(shown.contains("111 by 111 are drawn."), "{shown}");
}

#[test]
fn what_is_larger_than_preview_fetch_is_there_to_download_only() {
    let server = gallery(3, |setup| setup.limits.faces.preview_fetch = 5);
    let job = done(&server);
    let shown = page(&server, &job).text().to_owned();
    assert!(shown.contains("larger than 5 bytes (preview_fetch)"), "{shown}");
    assert!(!shown.contains("class=\"picture\"") && shown.contains("results/picture?item=0"));
}

#[test]
fn jobs_are_listed_and_chosen_by_service_state_and_day() {
    let server = gallery(3, |_| {});
    let jobs: Vec<String> = (0..3).map(|_| done(&server)).collect();
    let listed = |query: &str| {
        let shown = page(&server, &format!("/ogc/jobs{query}"));
        assert_eq!(shown.status, 200, "{query}: {}", shown.text());
        let text = shown.text().to_owned();
        (jobs.iter().filter(|job| text.contains(&format!("\"{job}\""))).count(), text)
    };
    assert_eq!(listed("").0, 3);
    assert_eq!(listed("?processID=gallery&status=successful&from=2001-01-01&to=").0, 3);
    assert_eq!(listed("?processID=&status=failed&from=&to=").0, 0);
    assert_eq!(listed("?to=2001-01-01").0, 0);
    let (some, text) = listed("?limit=2&status=successful");
    assert_eq!(some, 2);
    let next = text.split("rel=\"next\" href=\"").nth(1).unwrap();
    let next = next.split('"').next().unwrap().replace("&amp;", "&");
    assert_eq!(listed(next.strip_prefix("/ogc/jobs").unwrap()).0, 1);
    let (_, text) = listed("?processID=%3Cscript%3E&from=2001-01-01");
    assert!(!text.contains("<script>") && text.contains("value=\"2001-01-01\""), "{text}");
    assert_eq!(page(&server, "/ogc/jobs?from=%3Cb%3E").status, 400);
    // Programs get the same address in JSON.
    let all: serde_json::Value = serde_json::from_slice(&server.get("/ogc/jobs").body).unwrap();
    assert_eq!(all["jobs"].as_array().unwrap().len(), 3);
}

#[test]
fn an_account_tells_what_was_used_and_what_is_allowed() {
    let server = gallery(3, |setup| setup.limits.jobs.owner.disk = Some(1 << 30));
    done(&server);
    let shown = page(&server, "/ogc").text().to_owned();
    for part in ["processor time, in 30 days", "<td>1.0 GiB</td>", "<meter", "openapi.json"] {
        assert!(shown.contains(part), "no {part}: {shown}");
    }
    assert_eq!(server.get("/ogc").field("content-type"), Some("application/json"));
}

#[test]
fn an_account_lists_data_and_sessions_and_closes_them() {
    let server = gallery(3, |setup| setup.limits.faces.user_header = Some("x-user".to_owned()));
    let ask = |who: &str, method: &str, path: &str, more: &str, body: &str| {
        let fields = format!("X-User: {who}\r\n{BROWSER}{more}");
        server.exchange(method, path, &fields, body.as_bytes())
    };
    let account = |who: &str| ask(who, "GET", "/ogc", "", "").text().to_owned();
    assert_eq!(ask("ada", "PUT", "/data/pipe.msh", "", "12345").status, 201);
    let open = "<e:Envelope xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\"><e:Body>\
                <open xmlns=\"urn:fishplate:session:1\"/></e:Body></e:Envelope>";
    let opened = ask("ada", "POST", "/session", "Content-Type: text/xml\r\n", open);
    let id = opened.element("session").unwrap_or_else(|| panic!("{opened:?}")).to_owned();
    let shown = account("ada");
    let close = format!("/ogc/sessions/{id}/close");
    for part in ["<td>pipe.msh</td><td><code>", &format!("action=\"{close}\"")] {
        assert!(shown.contains(part), "no {part}: {shown}");
    }
    assert!(!account("bob").contains("pipe.msh") && !account("bob").contains(&id));
    // Neither another user nor another site closes it.
    assert_ne!(ask("bob", "POST", &close, "", "").status, 303);
    assert_eq!(ask("ada", "POST", &close, "Sec-Fetch-Site: cross-site\r\n", "").status, 403);
    assert_eq!(ask("ada", "GET", &close, "", "").status, 405);
    assert!(account("ada").contains(&id));
    let closed = ask("ada", "POST", &close, "Sec-Fetch-Site: same-origin\r\n", "");
    assert_eq!((closed.status, closed.field("location")), (303, Some("/ogc")));
    assert!(!account("ada").contains(&id));
}

#[test]
fn calls_are_shown_with_the_values_of_a_form() {
    let server = gallery(3, |_| {});
    let shown = page(&server, "/gallery").text().to_owned();
    assert!(shown.contains("fishplate call http://") && shown.contains("n=1 out:n"), "{shown}");
    let filled = page(&server, "/gallery?examples=call&n=987654").text().to_owned();
    assert_eq!(filled.matches("<pre data-example=").count(), 6);
    assert_eq!(filled.matches("987654").count(), 6, "{filled}");
    assert!(!filled.contains("<html"), "{filled}");
    // An unticked box of a form, a text that was emptied, what is too long for an address.
    let long = page(&server, "/gallery?examples=call&n%3Along=").text().to_owned();
    assert_eq!(long.matches("What n holds is too long").count(), 6, "{long}");
    let hostile =
        page(&server, "/gallery?examples=call&n=%3C/pre%3E%3Cscript%3E").text().to_owned();
    assert!(!hostile.contains("<script>"), "{hostile}");
}
