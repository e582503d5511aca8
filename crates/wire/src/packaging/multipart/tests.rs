use proptest::prelude::*;

use super::*;

/// Parts as (Content-ID, content).
type Parts = Vec<(Option<String>, Vec<u8>)>;

fn read(boundary: &str, chunks: &[&[u8]], limits: &WireLimits) -> Result<Parts, Fault> {
    let mut multipart = MultipartReader::new(boundary, limits)?;
    let mut parts: Parts = Vec::new();
    let mut open = false;
    for chunk in chunks {
        multipart.feed(Bytes::copy_from_slice(chunk), &mut |found| {
            match found {
                MultipartEvent::Head(head) => {
                    assert!(!std::mem::replace(&mut open, true));
                    parts.push((head.content_id, Vec::new()));
                }
                MultipartEvent::Data(data) => {
                    assert!(open && !data.is_empty());
                    parts.last_mut().unwrap().1.extend_from_slice(&data);
                }
                MultipartEvent::End => assert!(std::mem::replace(&mut open, false)),
            }
            Ok(())
        })?;
    }
    multipart.finish()?;
    Ok(parts)
}

fn read_all(boundary: &str, message: &[u8]) -> Result<Parts, Fault> {
    read(boundary, &[message], &WireLimits::default())
}

fn part(id: &str, content: &[u8]) -> (Option<String>, Vec<u8>) {
    (Some(id.to_owned()), content.to_vec())
}

/// Contents that look like delimiters all over.
const TRICKY: &[u8] =
    b"-\r\n--\r\n--A\r\n--Bx\r\n--B-\r\n--B \tx\r\n--B\r\r\n\r\r\n--\r\r\n--b\r\n\r";

fn tricky_message(preamble: &str) -> Vec<u8> {
    [
        preamble.as_bytes(),
        b"--B \t\r\nContent-ID: <one>\r\n\r\n",
        TRICKY,
        b"\r\n--B\r\nContent-Id: two\r\nX-Folded: a\r\n\tb\r\n\r\n\r\n--B\r\ncontent-id:<three>\r\n\r\n",
        b"--B\r\n\r\nno header\r\n--B--\r\nepilogue\r\n--B\r\n",
    ]
    .concat()
}

fn tricky_parts() -> Parts {
    vec![part("one", TRICKY), part("two", b""), part("three", b""), (None, b"no header".to_vec())]
}

#[test]
fn a_delimiter_may_straddle_any_edge() {
    for preamble in ["", "\r\n", "preamble --B\r\n", "\r\n\r\n"] {
        let message = tricky_message(preamble);
        assert_eq!(read_all("B", &message).unwrap(), tricky_parts());
        for at in 0..=message.len() {
            let (one, two) = message.split_at(at);
            let parts = read("B", &[one, two], &WireLimits::default()).unwrap();
            assert_eq!(parts, tricky_parts(), "cut at {at}");
        }
        let bytes: Vec<&[u8]> = message.chunks(1).collect();
        assert_eq!(read("B", &bytes, &WireLimits::default()).unwrap(), tricky_parts());
    }
}

#[test]
fn a_large_part_is_found_at_every_offset_around_a_buffer() {
    // Metro lost a part whose boundary stood at 8192.
    for len in 8192 - 60..8192 + 60 {
        let content = vec![b'x'; len];
        let mut message = b"--B\r\n\r\n".to_vec();
        message.extend_from_slice(&content);
        message.extend_from_slice(b"\r\n--B--");
        let chunks: Vec<&[u8]> = message.chunks(8192).collect();
        let parts = read("B", &chunks, &WireLimits::default()).unwrap();
        assert_eq!(parts, vec![(None, content)]);
    }
}

#[test]
fn data_are_slices_of_their_chunk() {
    let mut multipart = MultipartReader::new("B", &WireLimits::default()).unwrap();
    let message = Bytes::from([&b"--B\r\n\r\n"[..], &[7; 1000], b"\r\n--B--"].concat());
    let within = message.as_ptr_range();
    let mut seen = 0;
    multipart
        .feed(message.clone(), &mut |found| {
            if let MultipartEvent::Data(data) = found {
                assert!(within.contains(&data.as_ptr()));
                seen += data.len();
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(seen, 1000);
}

#[test]
fn a_part_in_base64_is_decoded() {
    let message = b"--B\r\nContent-Transfer-Encoding: BASE64\r\n\r\naGVs\r\nbG8=\r\n--B--";
    assert_eq!(read_all("B", message).unwrap(), vec![(None, b"hello".to_vec())]);
}

#[test]
fn a_part_in_quoted_printable_is_decoded() {
    let of = |content: &str| {
        let encoding = "Content-Transfer-Encoding: Quoted-Printable";
        let text = format!("--B\r\n{encoding}\r\n\r\n{content}\r\n--B\r\n\r\n=3D\r\n--B--");
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        read("B", &pieces, &WireLimits::default())
    };
    let parts = of("a=3D=\r\nb\r\nc=").unwrap();
    assert_eq!(parts, vec![(None, b"a=b\r\nc".to_vec()), (None, b"=3D".to_vec())]);
    assert!(of("=3").unwrap_err().message.contains("hexadecimal"));
    let other = b"--B\r\nContent-Transfer-Encoding: x-uuencode\r\n\r\nx\r\n--B--";
    let fault = read_all("B", other).unwrap_err();
    assert!(fault.message.contains("x-uuencode") && fault.message.contains("base64"), "{fault}");
}

#[test]
fn lines_may_end_as_the_first_boundarys_does() {
    // What looks like a boundary with CR LF can be one with LF.
    let bare = |text: &[u8]| -> Vec<u8> {
        let text = String::from_utf8(text.to_vec()).unwrap();
        text.replace("--B\r\r\n", "--Bx\r\n").replace("\r\n", "\n").into()
    };
    for preamble in ["", "\r\n", "preamble\r\n--B-\r\n"] {
        let message = bare(&tricky_message(preamble));
        let expected: Parts =
            tricky_parts().into_iter().map(|(id, content)| (id, bare(&content))).collect();
        for size in [1, 2, 3, 7, usize::MAX] {
            let chunks: Vec<&[u8]> = message.chunks(size).collect();
            assert_eq!(read("B", &chunks, &WireLimits::default()).unwrap(), expected);
        }
    }
    // With CR LF a bare line end is content, and a message of both is told.
    let both = b"--B\r\n\r\nx\n--B--\r\n--B--";
    assert_eq!(read_all("B", both).unwrap(), vec![(None, b"x\n--B--".to_vec())]);
    let fault = read_all("B", b"--B\r\n\r\nx\n--B--\n").unwrap_err();
    assert!(fault.message.contains("CR LF"), "{fault}");
}

#[test]
fn a_message_cut_short_is_refused() {
    let message = b"--B\r\nContent-ID: <a>\r\n\r\nx\r\n--B--";
    assert!(read_all("B", message).is_ok());
    for end in 0..message.len() {
        assert!(read_all("B", &message[..end]).is_err(), "{end}");
    }
    assert!(read_all("", message).is_err());
    assert!(read_all("B", b"--B\r\nno colon\r\n\r\nx\r\n--B--").is_err());
}

#[test]
fn limits_are_enforced_and_named() {
    let limits =
        WireLimits { parts: 2, part_headers: 2, header_length: 20, ..WireLimits::default() };
    let parts = |count: usize| "--B\r\n\r\nx\r\n".repeat(count) + "--B--";
    let headers = |count: usize| format!("--B\r\n{}\r\nx\r\n--B--", "a: b\r\n".repeat(count));
    let header = |len: usize| format!("--B\r\na: {}\r\n\r\nx\r\n--B--", "b".repeat(len));
    let folded = |lines: usize| format!("--B\r\na: {}\r\n\r\nx\r\n--B--", "b\r\n b".repeat(lines));
    for (name, good, bad) in [
        ("parts", parts(2), parts(3)),
        ("part_headers", headers(2), headers(3)),
        ("header_length", header(15), header(18)),
        ("header_length", folded(4), folded(9)),
    ] {
        for size in [1, 1000] {
            let cut = |text: &str| {
                let chunks: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
                read("B", &chunks, &limits)
            };
            assert!(cut(&good).is_ok(), "{name} {size}");
            assert_eq!(cut(&bad).unwrap_err().limit.unwrap().name, name);
        }
    }
}

proptest! {
    #[test]
    fn any_parts_in_any_pieces_come_back(
        contents in proptest::collection::vec("[\r\n-Bx]{0,40}", 1..4),
        cuts in proptest::collection::vec(1usize..30, 1..5),
    ) {
        // A content may hold the delimiter itself; such a message is another one.
        prop_assume!(contents.iter().all(|content| !format!("\r\n{content}").contains("\r\n--BB")));
        let mut message = String::new();
        for content in &contents {
            message.push_str(&format!("\r\n--BB\r\nContent-ID: <c>\r\n\r\n{content}"));
        }
        message.push_str("\r\n--BB--");
        let mut chunks: Vec<&[u8]> = Vec::new();
        let mut rest = message.as_bytes();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() { break }
            let (chunk, after) = rest.split_at((*cut).min(rest.len()));
            chunks.push(chunk);
            rest = after;
        }
        let expected: Parts = contents.iter().map(|text| part("c", text.as_bytes())).collect();
        prop_assert_eq!(read("BB", &chunks, &WireLimits::default()).unwrap(), expected);
    }
}
