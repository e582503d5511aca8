use super::*;

fn read(text: &str) -> Result<TransportSettings, SettingsError> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("transfers.toml");
    fs::write(&file, text).unwrap();
    TransportSettings::read(&file)
}

/// The example of the reference is one that is read.
#[test]
fn the_documented_example_is_read() {
    let page = include_str!("../../../../docs/reference/transfers.md");
    let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("transfers.toml");
    fs::write(&file, example).unwrap();
    let settings = TransportSettings::read(&file).unwrap();
    assert_eq!(settings.networks().unwrap()[0].name, "lab");
    let archive = &settings.ftp["archive.example.org"];
    let password = directory.path().join("secrets/archive");
    assert_eq!(archive.password, Some(SecretSource::File(password)), "relative to the file");
    let meshes = &settings.s3["meshes"];
    assert_eq!(meshes.secret_key, Some(SecretSource::Env("MESHES_SECRET_KEY".to_owned())));
    assert_eq!((meshes.part_size, meshes.read, meshes.write), (16 << 20, true, true));
    let mail = settings.mail.unwrap();
    assert_eq!((mail.mail_size, mail.tls), (10 << 20, crate::transfer::mailto::MailTls::StartTls));
}

#[test]
fn nothing_said_allows_nothing_of_ours() {
    let settings = read("").unwrap();
    assert!(settings.ftp.is_empty() && settings.s3.is_empty() && settings.mail.is_none());
}

#[test]
fn mistakes_are_told() {
    let said = |text: &str| {
        let error = read(text).unwrap_err();
        let source = std::error::Error::source(&error).map(ToString::to_string);
        format!("{error}: {}", source.unwrap_or_default())
    };
    for (text, words) in [
        ("[transfer]\nftps = 1", "unknown field"),
        ("[transfers]", "unknown field"),
        ("[transfer.ftp.'x']\npassword = 'p'", "password"),
        ("[transfer.mail]\nhost = 'x'", "from"),
        ("[transfer.s3.x]", "endpoint"),
        ("not toml", "line 1"),
    ] {
        assert!(said(text).contains(words), "{text}: {}", said(text));
    }
    let missing = TransportSettings::read(Path::new("/nonexistent/file")).unwrap_err();
    assert!(missing.to_string().contains("/nonexistent/file"), "{missing}");
}

#[test]
fn secrets_are_one_line_and_are_not_printed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("secret");
    let secret = SecretSource::File(file.clone());
    for (text, value) in [("a b", "a b"), ("a b\n", "a b"), ("a b\r\n", "a b")] {
        fs::write(&file, text).unwrap();
        let read = secret.read("key").unwrap();
        assert_eq!(read.reveal(), value);
        assert_eq!(format!("{read:?}"), "(hidden)");
    }
    for text in ["", "\n", "a\nb", "a\0b"] {
        fs::write(&file, text).unwrap();
        assert!(secret.read("key").unwrap_err().to_string().starts_with("key: "), "{text:?}");
    }
    let unset = SecretSource::Env("FISHPLATE_NO_SUCH_VARIABLE".to_owned()).read("key").unwrap_err();
    assert!(unset.to_string().contains("FISHPLATE_NO_SUCH_VARIABLE"), "{unset}");
}

#[test]
fn networks_have_names() {
    let settings = read("[transfer.networks]\nlab = ['10.1.0.0/16', 'fd00::/8']").unwrap();
    let networks = settings.networks().unwrap();
    assert_eq!((networks[0].name.as_str(), networks[0].blocks.len()), ("lab", 2));
    let wrong = read("[transfer.networks]\nlab = ['here']").unwrap();
    assert!(wrong.networks().unwrap_err().to_string().starts_with("transfer.networks.lab"));
}
