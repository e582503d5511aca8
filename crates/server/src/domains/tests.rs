use fishplate_ranks::launch::Client;
use fishplate_ranks::launch::rendezvous::ClientMessage;
use fishplate_ranks::status::{PeerRoute, RejectedAddress};
use fishplate_ranks::{Operation, Settings};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn bounds(ranks: u32) -> DomainBounds {
    DomainBounds { ranks, routes: 5, passages: 1 }
}

fn new(domain: u8, rank: Rank) -> NewRank {
    let credential = Credential::from_bytes([domain; 32]);
    let domain = DomainId::from_bytes([domain; 16]);
    let (transport, addresses) = (TransportKind::Tcp, Vec::new());
    NewRank { domain, rank, ranks: 2, credential, transport, addresses }
}

fn job(bits: u8) -> JobId {
    JobId::from_bytes([bits; 16])
}

/// Asks again until the ranks are as wanted.
async fn members(
    domains: &Domains,
    owner: &Principal,
    wanted: impl Fn(&Member) -> bool,
) -> Vec<Member> {
    loop {
        let members = domains.members(new(1, 0).domain, owner).unwrap();
        if members.values().all(&wanted) {
            return members.into_values().collect();
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn ranks_find_each_other_when_all_addresses_are_told() {
    let data = tempfile::tempdir().unwrap();
    let domains = Domains::new(data.path().join("domains"), DAY, bounds(2));
    let ada = Principal::named("ada");
    domains.open(new(1, 0).domain, &ada).unwrap();
    let mut ranks = Vec::new();
    for rank in 0..2 {
        let environment = domains.enter(&new(1, rank), &ada, ("ring", job(1))).await.unwrap();
        ranks.push(tokio::task::spawn_blocking(move || {
            let client = Client::join_as(&environment, Settings::default()).unwrap();
            client.process().world().barrier().run().unwrap();
            if rank == 0 {
                client.leave();
            }
        }));
    }
    let addresses = members(&domains, &ada, |of| of.address.is_some()).await;
    let addresses: Vec<Address> = addresses.into_iter().filter_map(|of| of.address).collect();
    let refused = domains.connect(new(1, 0).domain, &ada, addresses[..1].to_vec()).unwrap_err();
    assert_eq!(refused.message, "1 addresses for 2 ranks");
    domains.connect(new(1, 0).domain, &ada, addresses.clone()).unwrap();
    // Once more is no harm, but they can't be other ones.
    domains.connect(new(1, 0).domain, &ada, addresses.clone()).unwrap();
    let others = addresses.into_iter().rev().collect();
    assert!(domains.connect(new(1, 0).domain, &ada, others).is_err());
    for rank in ranks {
        rank.await.unwrap();
    }
    let ended = members(&domains, &ada, |of| !of.connected).await;
    assert_eq!(ended.iter().map(|of| of.left).collect::<Vec<_>>(), [true, false]);
}

#[tokio::test]
async fn ranks_of_a_server_share_memory_and_have_connections_to_others() {
    let (data, ada) = (tempfile::tempdir().unwrap(), Principal::named("ada"));
    let servers = ["one", "two"].map(|name| Domains::new(data.path().join(name), DAY, bounds(5)));
    let domain = new(1, 0).domain;
    for server in &servers {
        server.open(domain, &ada).unwrap();
    }
    let mut ranks = Vec::new();
    // The last one was told otherwise, and shares nothing.
    let kinds = [TransportKind::SharedMemory; 4].into_iter().chain([TransportKind::Tcp]);
    for (rank, transport) in (0..).zip(kinds) {
        let new = NewRank { ranks: 5, transport, ..new(1, rank) };
        let server = &servers[rank as usize % 2];
        let environment = server.enter(&new, &ada, ("ring", job(1))).await.unwrap();
        ranks.push(tokio::task::spawn_blocking(move || {
            let client = Client::join_as(&environment, Settings::default()).unwrap();
            let (world, mut sum) = (client.process().world(), [0]);
            world.allreduce(&[rank], &mut sum, &Operation::sum::<u32>()).run().unwrap();
            client.leave();
            sum[0]
        }));
    }
    let mut addresses = BTreeMap::new();
    for server in &servers {
        members(server, &ada, |of| of.address.is_some()).await;
        let members = server.members(domain, &ada).unwrap();
        addresses.extend(members.into_iter().filter_map(|(rank, of)| Some((rank, of.address?))));
    }
    for server in &servers {
        server.connect(domain, &ada, addresses.values().cloned().collect()).unwrap();
    }
    for rank in ranks {
        assert_eq!(rank.await.unwrap(), 10);
    }
    for (server, wanted) in servers.iter().zip([[0, 2], [1, 3]]) {
        let answer = server.lock()[&domain].answer.borrow().clone().unwrap();
        assert!(
            matches!(&answer.message, ServerMessage::Ranks { sharing, .. } if *sharing == wanted),
            "{answer:?}"
        );
        // Who has it has all of it.
        assert!(answer.memory.is_empty(), "{answer:?}");
    }
}

/// Whether a rank ends before it is told of the memory or while it is, none of it stays here.
#[tokio::test]
async fn memory_for_ranks_that_have_ended_is_given_up() {
    let (data, ada) = (tempfile::tempdir().unwrap(), Principal::named("ada"));
    let domains = Domains::new(data.path().join("domains"), DAY, bounds(3));
    let domain = new(1, 0).domain;
    domains.open(domain, &ada).unwrap();
    let mut streams = Vec::new();
    let mut addresses = Vec::new();
    for rank in 0..3 {
        let new = NewRank { ranks: 3, transport: TransportKind::SharedMemory, ..new(1, rank) };
        let environment = domains.enter(&new, &ada, ("ring", job(1))).await.unwrap();
        let mut stream = UnixStream::connect(&environment.rendezvous).await.unwrap();
        let address: Address = format!("127.0.0.1:{}", 4000 + rank).parse().unwrap();
        let credential = environment.credential.clone();
        let join = ClientMessage::Join { domain, rank, credential, address: address.clone() };
        stream.write_all(format!("{join}\n").as_bytes()).await.unwrap();
        streams.push(stream);
        addresses.push(address);
    }
    members(&domains, &ada, |of| of.address.is_some()).await;
    drop(streams.pop());
    while domains.members(domain, &ada).unwrap()[&2].connected {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    domains.connect(domain, &ada, addresses).unwrap();
    // The server has not run since, so the second one ends before it is told.
    drop(streams.pop());
    let has_memory =
        || !domains.lock()[&domain].answer.borrow().as_ref().unwrap().memory.is_empty();
    assert!(has_memory());
    tokio::time::timeout(Duration::from_secs(60), async {
        while has_memory() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await
    .unwrap();
    assert!(streams[0].readable().await.is_ok());
}

#[tokio::test]
async fn strangers_and_those_of_other_domains_do_not_join() {
    let data = tempfile::tempdir().unwrap();
    let domains = Domains::new(data.path().join("domains"), DAY, bounds(2));
    let ada = Principal::named("ada");
    for domain in [1, 2] {
        domains.open(new(domain, 0).domain, &ada).unwrap();
    }
    let right = domains.enter(&new(1, 0), &ada, ("ring", job(1))).await.unwrap();
    domains.enter(&new(2, 0), &ada, ("ring", job(2))).await.unwrap();
    let said = |environment: LaunchEnvironment| {
        let joining = move || Client::join_as(&environment, Settings::default());
        let joined = tokio::task::spawn_blocking(joining);
        async move { joined.await.unwrap().unwrap_err().to_string() }
    };
    let credential = Credential::from_bytes([2; 32]);
    let other = LaunchEnvironment { credential: credential.clone(), ..right.clone() };
    assert!(said(other).await.contains("are not those of a domain of this server"));
    let elsewhere = LaunchEnvironment { rank: 1, ..right.clone() };
    assert!(said(elsewhere).await.contains("rank 1 was not started here"));
    // Whoever waits in vain is told when the domain is ended.
    let waiting = said(right);
    members(&domains, &ada, |of| of.address.is_some()).await;
    domains.remove(new(1, 0).domain, &ada);
    assert!(waiting.await.contains("the domain was ended"));
}

#[tokio::test]
async fn a_rank_listens_where_it_was_told_to_and_nowhere_else() {
    let data = tempfile::tempdir().unwrap();
    let domains = Domains::new(data.path().join("domains"), DAY, bounds(2));
    let ada = Principal::named("ada");
    domains.open(new(1, 0).domain, &ada).unwrap();
    let near = domains.enter(&new(1, 0), &ada, ("ring", job(1))).await.unwrap();
    let direct = NewRank { addresses: vec!["192.0.2.1".parse().unwrap()], ..new(1, 1) };
    domains.enter(&direct, &ada, ("ring", job(2))).await.unwrap();
    let join = async |rank, address: &str| {
        let (domain, credential) = (near.domain, near.credential.clone());
        let address = address.parse().unwrap();
        let join = ClientMessage::Join { domain, rank, credential, address };
        let mut stream = UnixStream::connect(&near.rendezvous).await.unwrap();
        stream.write_all(format!("{join}\n").as_bytes()).await.unwrap();
        let mut refused = String::new();
        stream.read_to_string(&mut refused).await.unwrap();
        refused
    };
    for (rank, address) in [
        (0, "192.0.2.1:4000"),
        (0, "127.0.0.1:4000,192.0.2.1:4000"),
        (0, "127.0.0.1:25"),
        (0, "upgrade+http://127.0.0.1:4000/"),
        (1, "127.0.0.1:4000"),
        (1, "http://192.0.2.2:4000/"),
    ] {
        let refused = join(rank, address).await;
        assert!(refused.contains(&format!("may not listen at {address}")), "{refused}");
    }
    for (rank, address) in [(0, "http://127.0.0.1:4000/"), (1, "192.0.2.1:4000")] {
        let (domain, credential) = (near.domain, near.credential.clone());
        let address = address.parse().unwrap();
        domains.join(ClientMessage::Join { domain, rank, credential, address }).unwrap();
    }
}

#[tokio::test]
async fn addresses_that_contradict_what_is_known_are_named() {
    let data = tempfile::tempdir().unwrap();
    let domains = Domains::new(data.path().join("domains"), DAY, bounds(3));
    let (ada, domain) = (Principal::named("ada"), new(1, 0).domain);
    domains.open(domain, &ada).unwrap();
    for rank in 0..2 {
        domains.enter(&NewRank { ranks: 3, ..new(1, rank) }, &ada, ("ring", job(1))).await.unwrap();
    }
    let credential = new(1, 0).credential;
    let address = "127.0.0.1:4000".parse().unwrap();
    domains.join(ClientMessage::Join { domain, rank: 0, credential, address }).unwrap();
    let members = domains.members(domain, &ada).unwrap();
    let gateway = |rank: Rank| format!("upgrade+https://a.example/domains/d/{rank}").parse().ok();
    let check = |told: [&str; 3]| {
        let told: Vec<Address> = told.iter().map(|one| one.parse().unwrap()).collect();
        check_addresses(&members, &told, gateway).map_err(|fault| fault.message)
    };
    let at_gateway = "upgrade+https://a.example/domains/d/0";
    for rank_0 in ["127.0.0.1:4000", at_gateway] {
        check([rank_0, "127.0.0.1:4001", "127.0.0.1:4002"]).unwrap();
    }
    let of_other = check(["192.0.2.1:4000", "127.0.0.1:4001", "127.0.0.1:4002"]).unwrap_err();
    assert_eq!(
        of_other,
        "rank 0 is told to be at 192.0.2.1:4000, and has joined here at 127.0.0.1:4000"
    );
    let of_two = check(["127.0.0.1:4000", "127.0.0.1:4001", "127.0.0.1:4001"]).unwrap_err();
    assert_eq!(of_two, "ranks 1 and 2 are told to be both at 127.0.0.1:4001");
}

#[tokio::test]
async fn a_domain_is_its_owners() {
    let data = tempfile::tempdir().unwrap();
    let domains = Domains::new(data.path().join("domains"), Duration::ZERO, bounds(2));
    let (ada, bob) = (Principal::named("ada"), Principal::named("bob"));
    let domain = new(1, 0).domain;
    domains.open(domain, &ada).unwrap();
    assert!(domains.members(domain, &bob).unwrap_err().message.contains("no domain"));
    assert!(domains.enter(&new(1, 0), &bob, ("ring", job(1))).await.is_err());
    domains.remove(domain, &bob);
    assert!(domains.members(domain, &ada).unwrap().is_empty());
    // One that nobody uses is forgotten when the next one comes.
    domains.open(new(2, 0).domain, &bob).unwrap();
    assert!(domains.members(domain, &ada).is_err());
}

#[tokio::test]
async fn who_looks_at_a_domain_does_not_use_it() {
    let data = tempfile::tempdir().unwrap();
    let domains = Domains::new(data.path().join("domains"), DAY, bounds(2));
    let (ada, domain) = (Principal::named("ada"), new(1, 0).domain);
    domains.open(domain, &ada).unwrap();
    domains.enter(&new(1, 0), &ada, ("ring", job(1))).await.unwrap();
    let used = || domains.lock()[&domain].used;
    let before = used();
    let view = domains.look(domain, &ada).unwrap();
    assert_eq!((view.members.len(), view.addresses, used()), (1, vec![None; 2], before));
    assert_eq!((domains.of(&ada), used()), (vec![(domain, 1, 0)], before));
    let bob = Principal::named("bob");
    assert!(domains.look(domain, &bob).is_err() && domains.of(&bob).is_empty());
    domains.members(domain, &ada).unwrap();
    assert!(used() > before);
}

#[tokio::test]
async fn a_rank_that_is_not_started_is_withdrawn() {
    let data = tempfile::tempdir().unwrap();
    let domains = Domains::new(data.path().join("domains"), DAY, bounds(2));
    let (ada, rank) = (Principal::named("ada"), new(1, 0));
    domains.open(rank.domain, &ada).unwrap();
    domains.enter(&rank, &ada, ("ring", job(1))).await.unwrap();
    drop(EnteredRank::new(&domains, &rank, job(1)));
    domains.enter(&rank, &ada, ("ring", job(2))).await.unwrap();
    drop(EnteredRank::new(&domains, &rank, job(1)));
    EnteredRank::new(&domains, &rank, job(2)).keep();
    assert!(domains.enter(&rank, &ada, ("ring", job(3))).await.is_err());
}

#[tokio::test]
async fn a_domain_has_no_more_ranks_than_is_set() {
    let data = tempfile::tempdir().unwrap();
    let domains = Domains::new(data.path().join("domains"), DAY, bounds(2));
    let ada = Principal::named("ada");
    domains.open(new(1, 0).domain, &ada).unwrap();
    let more = NewRank { ranks: 3, ..new(1, 0) };
    let refused = domains.enter(&more, &ada, ("ring", job(1))).await.unwrap_err();
    assert_eq!(refused.message, "a domain of which some ranks are here has at most 2 ranks");
    assert_eq!(refused.limit.unwrap().name, "domain_ranks");
    domains.enter(&new(1, 0), &ada, ("ring", job(1))).await.unwrap();
}

#[tokio::test]
async fn a_rank_tells_its_status_over_one_connection() {
    let data = tempfile::tempdir().unwrap();
    let domains = Domains::new(data.path().join("domains"), DAY, bounds(2));
    let ada = Principal::named("ada");
    domains.open(new(1, 0).domain, &ada).unwrap();
    let environment = domains.enter(&new(1, 0), &ada, ("ring", job(1))).await.unwrap();
    let report = async |rank| {
        let LaunchEnvironment { domain, ref credential, ref rendezvous, .. } = environment;
        let credential = credential.clone();
        let greeting = ClientMessage::Report { domain, rank, credential };
        let mut stream = UnixStream::connect(rendezvous).await.unwrap();
        stream.write_all(format!("{greeting}\n").as_bytes()).await.unwrap();
        stream
    };
    let said = async |mut stream: UnixStream| {
        let mut line = String::new();
        stream.read_to_string(&mut line).await.unwrap();
        line
    };
    assert!(said(report(1).await).await.contains("rank 1 was not started here"));
    let mut first = report(0).await;
    let status = format!("{}\n", ClientMessage::Status(RankStatus::default()));
    first.write_all(status.as_bytes()).await.unwrap();
    members(&domains, &ada, |of| of.status.is_some()).await;
    assert!(said(report(0).await).await.contains("on another connection"));
    // When that is gone, another one takes its place.
    drop(first);
    members(&domains, &ada, |of| !of.reports).await;
    let _other = report(0).await;
    members(&domains, &ada, |of| of.reports).await;
}

#[tokio::test]
async fn of_routes_no_more_are_kept_than_is_set() {
    let data = tempfile::tempdir().unwrap();
    let domains = Domains::new(data.path().join("domains"), DAY, bounds(8));
    let (ada, domain) = (Principal::named("ada"), new(1, 0).domain);
    domains.open(domain, &ada).unwrap();
    let mut streams = Vec::new();
    // Each of the two has a part of five.
    for rank in 0..2 {
        let new = NewRank { ranks: 8, ..new(1, rank) };
        let environment = domains.enter(&new, &ada, ("ring", job(1))).await.unwrap();
        let credential = environment.credential;
        let greeting = ClientMessage::Report { domain, rank, credential };
        let reason = RejectedAddress { address: "10.0.0.1:4".to_owned(), reason: "no".to_owned() };
        let routes = (0..8).map(|peer| PeerRoute {
            peer,
            address: (peer != 3).then(|| "memory".to_owned()),
            rejected: if peer == 6 { vec![reason.clone()] } else { Vec::new() },
        });
        let routes = if rank == 0 { routes.collect() } else { routes.take(2).collect() };
        let status = ClientMessage::Status(RankStatus { routes, ..RankStatus::default() });
        let mut stream = UnixStream::connect(&environment.rendezvous).await.unwrap();
        stream.write_all(format!("{greeting}\n{status}\n").as_bytes()).await.unwrap();
        streams.push(stream);
    }
    let members = members(&domains, &ada, |of| of.status.is_some()).await;
    let kept = members.iter().map(|of| {
        let (_, status) = of.status.as_ref().unwrap();
        let peers: Vec<Rank> = status.routes.iter().map(|route| route.peer).collect();
        (peers, status.omitted_routes)
    });
    // First those that say more than that all is well; nothing is left out of who tells little.
    assert_eq!(kept.collect::<Vec<_>>(), [(vec![3, 6], 6), (vec![0, 1], 0)]);
}

#[test]
fn the_library_is_found_under_its_name() {
    let data = tempfile::tempdir().unwrap();
    let domains = Domains::new(data.path().join("domains"), DAY, bounds(2));
    for library in ["/usr/lib/one.so", "/usr/lib/other.so"] {
        let directory = domains.libraries(Path::new(library)).unwrap();
        let link = std::fs::read_link(directory.join(LIBRARY)).unwrap();
        assert_eq!(link, Path::new(library));
    }
}
