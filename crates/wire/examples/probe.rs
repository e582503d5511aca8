use bytes::Bytes;
use fishplate_contract::*;
use fishplate_wire::*;
use std::sync::Arc;
#[derive(Debug)]
struct N;
impl Held for N {
    fn path(&self) -> &std::path::Path {
        std::path::Path::new("")
    }
    fn len(&self) -> u64 {
        0
    }
    fn keep(&self) {}
}
struct S;
impl SpoolSink for S {
    fn create(&mut self) -> Arc<dyn Held> {
        Arc::new(N)
    }
    fn write(&mut self, _: &Arc<dyn Held>, _: Bytes) {}
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let body = std::fs::read(&a[2]).unwrap();
    let ps = [Parameter::new("data", DataType::Raw), Parameter::new("x", DataType::Int)];
    let limits =
        WireLimits { inline_size: 1 << 30, inline_total: 1 << 30, ..WireLimits::default() };
    let head = Head { content_type: &a[1], ..Head::default() };
    let mut u = Unpacker::new(
        &head,
        Box::new(Expected::response(QName::new("urn:test", "call"), &ps)),
        &limits,
    )
    .unwrap();
    let mut it = Bytes::from(body);
    while !it.is_empty() {
        let n = it.len().min(1000);
        u.feed(it.split_to(n), &mut S).unwrap();
    }
    let p = u.finish(&mut S).unwrap();
    let req = read(p).unwrap();
    let b = bind::bind("call", &ps, req.children).unwrap();
    let outs = b;
    for pk in Packaging::ALL {
        let form = ReplyForm {
            packaging: *pk,
            ..ReplyForm::of_head(&Head { content_type: &a[1], ..Head::default() })
        };
        let ex = Exposed {
            name: "call".into(),
            ..Interface::of(&Service {
                name: "t".into(),
                namespace: "urn:test".into(),
                title: String::new(),
                documentation: String::new(),
                operations: vec![Operation {
                    name: "call".into(),
                    documentation: String::new(),
                    signature: Signature { inputs: vec![], outputs: ps.to_vec() },
                }],
            })
            .exposed[0]
                .clone()
        };
        let e = write_reply(&form, "urn:test", &ex, &outs, None);
        let packed = pack(&e, *pk, None);
        let mut out = vec![];
        for s in packed.segments {
            if let Segment::Bytes(b) = s {
                out.extend_from_slice(&b)
            }
        }
        std::fs::write(format!("{}.{}", a[3], pk.name()), out).unwrap();
        println!("{} {}", pk.name(), packed.content_type);
    }
}
