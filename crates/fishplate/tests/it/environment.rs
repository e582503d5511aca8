//! What programs get of the server's environment, and what they don't.

use std::fs;
use std::path::Path;

use crate::run::User;
use crate::server::Server;

const TRANSFERS: &str = "
[transfer.s3.meshes]
endpoint = 'http://127.0.0.1:9'
bucket = 'meshes'
access_key.env = 'MESHES_ACCESS_KEY'
secret_key.env = 'MESHES_SECRET_KEY'
";

fn printing(words: &[&str]) -> (Server, User) {
    let mut server = Server::prepare().in_environment(&[
        ("MESHES_ACCESS_KEY", "an-access-key"),
        ("MESHES_SECRET_KEY", "a-secret-key"),
        ("FOAM_ETC", "/opt/foam/etc"),
        ("CLOUD_TOKEN", "a-token"),
    ]);
    server.script("program", "env");
    fs::write(server.path("transfers.toml"), TRANSFERS).unwrap();
    let line = ["-n", "test", "--transfers", "transfers.toml"];
    let slots = ["--", "./program", ">", "[out file said:string]"];
    server.serve(&[&line, words, &slots[..]].concat());
    (server, User::new())
}

/// Everything that is written below a directory.
fn all_text(directory: &Path) -> String {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn programs_get_what_any_needs_and_what_their_service_names_and_no_secret() {
    for (words, foam, token) in [
        (&[][..], false, false),
        (&["--pass-environment", "FOAM_*"], true, false),
        (&["--pass-environment", "*"], true, true),
    ] {
        let (server, user) = printing(words);
        let said = user.succeed(&["call", server.url()]);
        assert!(said.contains("PATH="), "{said}");
        assert_eq!(said.contains("FOAM_ETC=/opt/foam/etc"), foam, "{words:?} {said}");
        assert_eq!(said.contains("a-token"), token, "{words:?} {said}");
        let kept = all_text(&server.data().join("environments"));
        assert!(kept.contains("PATH"), "{kept}");
        for secret in ["an-access-key", "a-secret-key"] {
            assert!(!said.contains(secret), "{words:?} {said}");
            assert!(!kept.contains(secret), "{words:?} {kept}");
        }
    }
}

#[test]
fn a_service_that_asks_for_a_secret_is_not_served() {
    let user = User::new();
    user.write("transfers.toml", TRANSFERS);
    user.write("program", "");
    let words = ["serve", "--listen", "127.0.0.1:0", "--data", "data", "-n", "test"];
    let more = ["--transfers", "transfers.toml", "--pass-environment", "MESHES_SECRET_KEY"];
    let line = ["--", "/bin/true"];
    let command = [&words[..], &more[..], &line[..]].concat();
    let variables = [("MESHES_ACCESS_KEY", "a"), ("MESHES_SECRET_KEY", "b")];
    let said = user.run_in(&variables, &command);
    assert_ne!(said.code, 0, "{said:?}");
    assert!(said.stderr.contains("MESHES_SECRET_KEY holds a secret"), "{said:?}");
}
