//! Three sites in networks of their own: two with one open port each, and one with none.

use fishplate_ranks::{Communicator, Operation};

use crate::domains::prepared;
use crate::gateway::tls;
use crate::networks::Network;
use crate::run::User;
use crate::server::until;

/// Every way in which ranks of several sites speak to each other.
pub(crate) fn everything(world: &Communicator) {
    const LENGTH: usize = 100_000;
    let (rank, size) = (world.rank(), world.size());
    let all = || 0..u64::from(size);
    let mine = vec![u64::from(rank); LENGTH];
    for root in 0..size {
        let mut data =
            if rank == root { vec![u64::from(root) + 7; LENGTH] } else { vec![0; LENGTH] };
        world.broadcast(&mut data, root).run().unwrap();
        assert!(data.iter().all(|value| *value == u64::from(root) + 7));
        let mut gathered = vec![0u64; if rank == root { size as usize } else { 0 }];
        world.gather(&[u64::from(rank)], &mut gathered, root).run().unwrap();
        assert!(rank != root || gathered.into_iter().eq(all()));
        let mut sum = vec![0u64; if rank == root { LENGTH } else { 0 }];
        world.reduce(&mine, &mut sum, &Operation::sum::<u64>(), root).run().unwrap();
        assert!(sum.iter().all(|value| *value == all().sum::<u64>()));
    }
    let mut sum = vec![0u64; LENGTH];
    world.allreduce(&mine, &mut sum, &Operation::sum::<u64>()).run().unwrap();
    assert!(sum.iter().all(|value| *value == all().sum::<u64>()));
    let mut gathered = vec![0u64; size as usize];
    world.allgather(&[u64::from(rank)], &mut gathered).run().unwrap();
    assert!(gathered.into_iter().eq(all()));
    let mut transposed = vec![0u64; size as usize];
    let rows: Vec<u64> = all().map(|to| u64::from(rank) * 100 + to).collect();
    world.alltoall(&rows, &mut transposed).run().unwrap();
    assert!(transposed.into_iter().eq(all().map(|from| from * 100 + u64::from(rank))));
    world.barrier().run().unwrap();
    println!("\nrank {rank} of {size}: all is right");
}

#[test]
fn sites_with_one_open_port_each_and_one_without_are_a_domain() {
    const PORT: u16 = 8443;
    let Some(network) = Network::new(3) else { return };
    let user = User::new();
    let others = network.address(1);
    // The first address of this name is nobody's.
    network.name("hub.example", &[network.address(8), network.address(0)]);
    let (tls, ca) = tls(&user, &["hub.example", &others]);
    let tls: Vec<&str> = tls.iter().map(String::as_str).collect();
    user.write(
        "policy.toml",
        "[[allow]]\nwho = '@anybody'\n\
         [[allow]]\nwho = '@anybody'\nservice = 'sites'\noperation = 'berlin'\nmay = 'register'\n",
    );
    let policy = user.path("policy.toml").to_str().unwrap().to_owned();
    let mut servers = [prepared(2), prepared(2), prepared(2)];
    let hub = format!("https://hub.example:{PORT}");
    let site = format!("{hub}/sites/berlin");
    let [first, second, third] = &mut servers;
    let words = ["--public-url", &hub, "--policy", &policy, "--open", "ring.toml"];
    let listen = format!("{}:{PORT}", network.address(0));
    first.serve_on(network.machine(0), &listen, &[&tls[..], &words].concat());
    let listen = format!("{others}:{PORT}");
    second.serve_on(network.machine(1), &listen, &[&tls[..], &["--open", "ring.toml"]].concat());
    let words = ["--relay", &site, "--open", "--rank-ca", &ca, "ring.toml"];
    third.serve_on(network.machine(2), &format!("127.0.0.1:{PORT}"), &words);
    until("the hidden site is reached", || third.log().contains("others reach this server"));
    for transport in ["tcp", "soap"] {
        let instances = servers.each_ref().map(|server| {
            format!(
                "[[instances]]\nservice = '{}'\nranks = 2\narguments = ['what=everything']\n",
                server.url()
            )
        });
        user.write("domain.toml", instances.concat());
        let words = ["domain", "run", "domain.toml", "--transport", transport, "--ca", &ca];
        let said = user.run_on(network.machine(0), &words);
        assert_eq!(said.code, 0, "{transport} {said:?}");
        for rank in 0..6 {
            let line = format!("[{rank}] rank {rank} of 6: all is right\n");
            assert!(said.stdout.contains(&line), "{line} {said:?}");
        }
    }
    // What is open: one port of two of them, and nothing of the third.
    for (machine, open) in [(0, 1), (1, 1), (2, 0)] {
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
        let table = network.command(machine, "cat").args(tables).output().unwrap();
        let table = String::from_utf8(table.stdout).unwrap();
        let lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let loopback = ["0100007F:", "00000000000000000000000001000000:"];
        let listening = lines.filter(|fields| {
            fields[3] == "0A" && !loopback.iter().any(|address| fields[1].starts_with(address))
        });
        assert_eq!(listening.count(), open, "{table}");
    }
}
