//! What can't be served is said before anything is.

use std::os::unix::fs::PermissionsExt as _;

use fishplate_server::assembly::AssemblyError;

use crate::bed::Setup;

const COMMAND: &str = "command = './p'\n";

fn named(name: &str) -> (String, String) {
    ("p".to_owned(), format!("name = '{name}'\n{COMMAND}"))
}

fn setup(names: &[&str]) -> Setup {
    names.iter().fold(Setup::new(), |setup, name| {
        let (script, text) = named(name);
        setup.with(&script, &text, "")
    })
}

#[test]
fn no_two_services_have_one_name() {
    let error = setup(&["twin", "twin"]).refused();
    assert!(matches!(&error, AssemblyError::Twice(name) if name == "twin"), "{error}");
    let error = setup(&["matrix"]).with_matrix().refused();
    assert!(matches!(&error, AssemblyError::Twice(name) if name == "matrix"), "{error}");
}

#[test]
fn no_service_has_a_name_that_the_server_needs() {
    // Those that are never free are refused with the description (`RESERVED_NAMES`).
    let error = setup(&["session"]).refused();
    assert!(matches!(error, AssemblyError::Taken("session")), "{error}");
    let mut without = setup(&["session"]);
    without.limits.data.sessions = false;
    let server = without.serve();
    assert!(server.get("/session").text().contains("session"));
}

#[test]
fn a_data_directory_is_ours_alone() {
    let server = setup(&["p"]);
    let data = server.limits.jobs.data.clone();
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).unwrap();
    let server = server.serve();
    let mode = std::fs::metadata(server.data("")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    if nix::unistd::geteuid().is_root() {
        let other = setup(&["p"]);
        let data = other.limits.jobs.data.clone();
        std::fs::create_dir(&data).unwrap();
        nix::unistd::chown(&data, Some(1.into()), None).unwrap();
        let error = other.refused();
        assert!(matches!(error, AssemblyError::Owner { owner: 1, .. }), "{error}");
    }
}

#[test]
fn settings_of_transfers_that_cannot_be_used_are_told() {
    let mut setup = setup(&["p"]);
    let file = setup.directory.path().join("transfers.toml");
    std::fs::write(&file, "[transfer.ftp]\nx = 1\n").unwrap();
    setup.limits.data.transfers = Some(file);
    let error = setup.refused();
    assert!(matches!(error, AssemblyError::Transfers(_)), "{error}");
}
