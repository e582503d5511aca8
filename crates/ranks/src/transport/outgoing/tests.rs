use std::net::{TcpListener, TcpStream};

use super::*;
use crate::header::{Context, DomainId, Header, Kind, Mode};
use crate::settings::Settings;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Payloads without anything around them; each byte that comes back acknowledges one.
#[derive(Debug)]
struct Bare;

impl Protocol for Bare {
    type Head = [u8; 0];

    const SPEAKS_FIRST: bool = true;

    fn head(&mut self, _frame: &Frame) -> Self::Head {
        []
    }

    fn hear(&mut self, _stream: &mut Stream, bytes: &mut Vec<u8>) -> io::Result<ReceiverStatus> {
        let count = std::mem::take(bytes).len();
        Ok(ReceiverStatus { confirmed: count > 0, acknowledged: Acknowledged::Count(count) })
    }
}

fn frame(payload: Vec<u8>) -> Frame {
    let header = Header {
        domain: DomainId::from_bytes([0; 16]),
        from: 0,
        to: 1,
        context: Context(0),
        tag: 0,
        sequence: 1,
        mode: Mode::Standard,
        kind: Kind::Eager,
        length: payload.len() as u64,
        sender: RequestId(0),
        receiver: RequestId(0),
    };
    Frame { header, payload: Payload::Owned(payload), request: None, eager: None }
}

fn outgoing(listener: &TcpListener) -> Outgoing<Bare> {
    let routes = vec![listener.local_addr().unwrap().into()];
    Outgoing::new((routes, Vec::new()), 1, Bare, TIMEOUT)
}

/// Goes on until `is_done`.
fn drive(
    outgoing: &mut Outgoing<Bare>,
    poller: &Poller,
    is_done: impl Fn(&Outgoing<Bare>) -> bool,
) {
    let mut ready = Vec::new();
    while !is_done(outgoing) {
        poller.ready(&mut ready);
        for _ in ready.drain(..) {
            outgoing.ready(poller, &mut Vec::new());
        }
        outgoing.tick(Instant::now(), poller);
    }
}

#[test]
fn what_is_refused_while_it_is_written_is_followed_over_another_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let poller = Poller::new(None).unwrap();
    let mut outgoing = outgoing(&listener);
    // More than sockets take.
    outgoing.send(frame(vec![b'a'; 64 << 20]), &poller);
    outgoing.send(frame(b"bbbb".to_vec()), &poller);
    drive(&mut outgoing, &poller, |it| it.waits_for_room);
    let (mut first, _) = listener.accept().unwrap();
    first.write_all(b"1").unwrap();
    drive(&mut outgoing, &poller, |it| it.kept.len() == 1);
    assert!(!matches!(outgoing.connection, Connection::Ready(_)), "{:?}", outgoing.connection);
    drive(&mut outgoing, &poller, |it| it.written == 1);
    let (mut second, _) = listener.accept().unwrap();
    let mut bytes = [0; 4];
    second.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"bbbb");
    second.write_all(b"1").unwrap();
    drive(&mut outgoing, &poller, Outgoing::is_flushed);
}

/// A connection since so long ago over which nothing was heard, of a process that was out of reach for longer.
fn silent(outgoing: &mut Outgoing<Bare>, listener: &TcpListener, since: Duration) -> TcpStream {
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let begun = Instant::now().checked_sub(since).unwrap();
    outgoing.connection = Connection::Unconfirmed(stream.into(), begun);
    outgoing.lost_since = begun.checked_sub(TIMEOUT + LONGEST_PAUSE);
    listener.accept().unwrap().0
}

#[test]
fn an_idle_connection_that_is_closed_is_no_loss() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let poller = Poller::new(None).unwrap();
    let mut outgoing = outgoing(&listener);
    drop(silent(&mut outgoing, &listener, TIMEOUT));
    outgoing.ready(&poller, &mut Vec::new());
    assert!(matches!(outgoing.connection, Connection::Idle), "{:?}", outgoing.connection);
    assert!(!outgoing.tick(Instant::now(), &poller));
}

#[test]
fn a_process_that_accepts_and_says_nothing_is_not_lost_though_its_other_address_is() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let poller = Poller::new(None).unwrap();
    let mut outgoing = outgoing(&listener);
    outgoing.routes.push(outgoing.routes[0].clone());
    let _accepted = silent(&mut outgoing, &listener, TIMEOUT);
    outgoing.send(frame(b"a".to_vec()), &poller);
    assert!(!outgoing.tick(Instant::now(), &poller));
    assert!(matches!(outgoing.connection, Connection::Broken(_)), "{:?}", outgoing.connection);
}

#[test]
fn an_address_that_does_not_answer_is_passed_over_soon() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // It accepts, and its gateway says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let poller = Poller::new(None).unwrap();
    let mut outgoing = outgoing(&listener);
    let mut dead = Route::from(silent.local_addr().unwrap());
    dead.request = b"GET".to_vec();
    outgoing.routes.insert(0, dead);
    outgoing.send(frame(b"a".to_vec()), &poller);
    assert!(matches!(outgoing.connection, Connection::Connecting(..)));
    let begun = Instant::now();
    let mut now = begun;
    while outgoing.at == 0 {
        now = outgoing.deadline().unwrap();
        assert!(!outgoing.tick(now, &poller));
    }
    assert!(now - begun < 2 * FIRST_CONNECT_TIMEOUT, "{:?}", now - begun);
    drive(&mut outgoing, &poller, |it| it.written == 1);
    let not = format!("not {} (it did not answer in time)", outgoing.routes[0]);
    assert_eq!(outgoing.route(1).unwrap().to_string(), format!("not reached, {not}"));
    listener.accept().unwrap().0.write_all(b"1").unwrap();
    drive(&mut outgoing, &poller, Outgoing::is_flushed);
    let over = format!("over {}, {not}", listener.local_addr().unwrap());
    assert_eq!(outgoing.route(1).unwrap().to_string(), over);
}

#[test]
fn a_send_that_waits_for_room_is_complete_when_it_is_written_or_acknowledged() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let poller = Poller::new(None).unwrap();
    let mut outgoing = outgoing(&listener);
    outgoing.send(frame(vec![b'a'; 64 << 20]), &poller);
    drive(&mut outgoing, &poller, |it| it.waits_for_room);
    let mut engine = Engine::new(DomainId::from_bytes([0; 16]), 0, 2, &Settings::default());
    let mut sends = Vec::new();
    for length in [4, 64 << 20, 4] {
        let request = engine.at_once();
        outgoing.send(Frame { eager: Some(request), ..frame(vec![b'b'; length]) }, &poller);
        outgoing.delay(&mut engine);
        assert!(!engine.is_complete(request));
        sends.push(request);
    }
    let (mut accepted, _) = listener.accept().unwrap();
    let mut sent = Vec::new();
    let mut go_on = |outgoing: &mut Outgoing<Bare>, count: usize| {
        let mut ready = Vec::new();
        while sent.len() < count {
            poller.ready(&mut ready);
            ready.drain(..).for_each(|_| outgoing.ready(&poller, &mut sent));
        }
        sent.clone()
    };
    // The long one behind it still waits.
    let mut near = accepted.try_clone().unwrap();
    let reader = std::thread::spawn(move || near.read_exact(&mut vec![0; (64 << 20) + 4]));
    assert_eq!(go_on(&mut outgoing, 1), sends[..1]);
    reader.join().unwrap().unwrap();
    assert!(outgoing.waits_for_room);
    // The receiver has the others already, over a connection of before.
    accepted.write_all(b"1111").unwrap();
    assert_eq!(go_on(&mut outgoing, 3), sends);
    assert!(!outgoing.close());
}

#[test]
fn time_in_which_nobody_looked_does_not_count() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let poller = Poller::new(None).unwrap();
    let mut outgoing = outgoing(&listener);
    outgoing.routes[0].request = b"GET".to_vec();
    outgoing.send(frame(b"a".to_vec()), &poller);
    let (accepted, _) = listener.accept().unwrap();
    assert!(matches!(outgoing.connection, Connection::Connecting(..)));
    // The program computes, and then waits for a gateway that says nothing.
    let begun = Instant::now() + 10 * TIMEOUT;
    let mut now = begun;
    while !outgoing.tick(now, &poller) {
        now = outgoing.deadline().unwrap();
    }
    let waited = now - begun;
    assert!(waited > TIMEOUT / 2 && waited <= TIMEOUT, "{waited:?}");
    // It computes, and meanwhile the gateway has closed: there is another try.
    drop(accepted);
    outgoing.looked = Instant::now().checked_sub(10 * TIMEOUT).unwrap();
    outgoing.lost_since = Some(outgoing.looked);
    let mut ready = Vec::new();
    while matches!(outgoing.connection, Connection::Connecting(..)) {
        poller.ready(&mut ready);
        ready.drain(..).for_each(|_| outgoing.ready(&poller, &mut Vec::new()));
    }
    assert!(!outgoing.tick(Instant::now(), &poller));
}
