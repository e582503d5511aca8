//! Resumable uploads, to their end and beyond it (draft-ietf-httpbis-resumable-upload-12).

use crate::bed::{Answer, Server, Setup};

const PARTIAL: &str = "Content-Type: application/partial-upload\r\n";

/// An upload that was begun with these bytes, and its path.
fn begun(server: &Server, bytes: &[u8]) -> String {
    let answer = server.exchange("POST", "/data/mesh.msh", "Upload-Complete: ?0\r\n", bytes);
    assert_eq!(answer.status, 201, "{answer:?}");
    path(server, answer.field("location").unwrap())
}

fn path(server: &Server, url: &str) -> String {
    url.strip_prefix(&format!("http://{}", server.address)).unwrap().to_owned()
}

fn append(server: &Server, path: &str, at: usize, complete: &str, bytes: &[u8]) -> Answer {
    let fields = format!("{PARTIAL}Upload-Offset: {at}\r\nUpload-Complete: {complete}\r\n");
    server.exchange("PATCH", path, &fields, bytes)
}

fn head(server: &Server, path: &str) -> Answer {
    let mut connection = server.connect();
    connection.send(&server.request("HEAD", path, "", b""));
    connection.answer_to("HEAD").unwrap()
}

#[test]
fn an_upload_of_several_parts_is_data_under_its_name_once_it_is_complete() {
    let server = Setup::new().serve();
    let upload = begun(&server, b"first ");
    let middle = append(&server, &upload, 6, "?0", b"second ");
    assert_eq!((middle.status, middle.field("upload-offset")), (204, Some("13")), "{middle:?}");
    let state = head(&server, &upload);
    assert_eq!(
        [state.field("upload-offset"), state.field("upload-complete"), state.field("location")],
        [Some("13"), Some("?0"), None]
    );
    let last = append(&server, &upload, 13, "?1", b"third");
    assert_eq!((last.status, last.field("upload-complete")), (201, Some("?1")), "{last:?}");
    let url = last.field("location").unwrap();
    assert!(url.ends_with("/mesh.msh"), "{url}");
    let data = server.get(&path(&server, url));
    assert_eq!((data.status, data.text()), (200, "first second third"));
    // Who missed the answer asks again, and is told where it is.
    let state = head(&server, &upload);
    assert_eq!(
        [state.field("upload-offset"), state.field("upload-complete"), state.field("location")],
        [Some("18"), Some("?1"), Some(url)]
    );
    let again = append(&server, &upload, 18, "?1", b"");
    assert_eq!((again.status, again.field("location")), (410, Some(url)), "{again:?}");
}

#[test]
fn what_does_not_fit_what_was_told_is_refused_and_loses_nothing() {
    let server = Setup::new().serve();
    let upload = begun(&server, b"0123456789");
    let wrong = append(&server, &upload, 4, "?1", b"456789");
    assert_eq!(wrong.status, 409, "{wrong:?}");
    assert!(wrong.text().contains("\"expected-offset\":10"), "{}", wrong.text());
    let fields =
        format!("{PARTIAL}Upload-Offset: 10\r\nUpload-Complete: ?1\r\nUpload-Length: 30\r\n");
    let short = server.exchange("PATCH", &upload, &fields, b"abc");
    assert_eq!(short.status, 400, "{short:?}");
    assert!(short.text().contains("inconsistent-upload-length"), "{}", short.text());
    let plain =
        server.exchange("PATCH", &upload, "Upload-Offset: 10\r\nUpload-Complete: ?1\r\n", b"");
    assert_eq!(plain.status, 415, "{plain:?}");
    assert_eq!(head(&server, &upload).field("upload-offset"), Some("10"));
}

#[test]
fn an_upload_whose_digest_does_not_match_is_forgotten() {
    let server = Setup::new().serve();
    let of_nothing = "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:";
    let fields = format!("Upload-Complete: ?0\r\nRepr-Digest: {of_nothing}\r\n");
    let created = server.exchange("POST", "/data/", &fields, b"");
    let upload = path(&server, created.field("location").unwrap());
    let last = append(&server, &upload, 0, "?1", b"something");
    assert_eq!(last.status, 422, "{last:?}");
    assert!(last.text().contains("DataMismatch"), "{}", last.text());
    assert_eq!(head(&server, &upload).status, 404);
}

#[test]
fn a_cancelled_upload_leaves_no_bytes() {
    let server = Setup::new().serve();
    let upload = begun(&server, &[7; 100_000]);
    assert_ne!(server.names("pool/incoming"), [""; 0]);
    assert_eq!(server.exchange("DELETE", &upload, "", b"").status, 204);
    assert_eq!(head(&server, &upload).status, 404);
    let left: u64 = server
        .names("pool/incoming")
        .iter()
        .map(|name| std::fs::metadata(server.data("pool/incoming").join(name)).unwrap().len())
        .sum();
    assert!(left < 1000, "{left} bytes are left");
}
