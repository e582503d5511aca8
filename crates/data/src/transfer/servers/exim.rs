//! SMTP by exim, which delivers to a Maildir.

use std::fs;
use std::path::Path;
use std::process::Command;

use base64_simd::STANDARD;

use super::{Server, allow, free_address, installed, open_directory, wait_for};

pub(crate) const USER: &str = "fishplate";
pub(crate) const PASSWORD: &str = "post of 1840";

/// A relay that takes mail for everybody at example.org but `nobody` (refused) and `later` (not
/// now).
#[derive(Debug)]
pub(crate) struct Exim {
    pub(crate) server: Server,
}

/// A message as it was delivered.
#[derive(Debug)]
pub(crate) struct Mail {
    pub(crate) text: String,
}

impl Exim {
    /// Starts one. With a certificate and its key, everybody has to come by TLS and to log in.
    pub(crate) fn start(certificate: Option<(&str, &str)>) -> Option<Self> {
        let program = installed("exim4", true)?;
        let directory = open_directory();
        let at = |name: &str| directory.path().join(name);
        for name in ["spool", "log", "mail"] {
            fs::create_dir(at(name)).unwrap();
            allow(&at(name), 0o777);
        }
        let mut tls = String::from("tls_advertise_hosts =\n");
        let mut wary = "";
        if let Some((certificate, key)) = certificate {
            fs::write(at("certificate"), certificate).unwrap();
            fs::write(at("key"), key).unwrap();
            allow(&at("key"), 0o644);
            tls = format!(
                "tls_advertise_hosts = *\ntls_certificate = {}\ntls_privatekey = {}\n",
                at("certificate").display(),
                at("key").display()
            );
            wary = "  deny !encrypted = *\n  deny !authenticated = *\n";
        }
        let address = free_address();
        let settings = format!(
            "primary_hostname = mail.example.org\nspool_directory = {spool}\n\
             log_file_path = {log}/%slog\npid_file_path = {log}/pid\nkeep_environment =\n\
             local_interfaces = 127.0.0.1\ndaemon_smtp_ports = {port}\n{tls}\
             auth_advertise_hosts = *\nmessage_size_limit = 50M\nnever_users =\n\
             acl_smtp_rcpt = recipient\nacl_smtp_data = accept\n\
             begin acl\nrecipient:\n{wary}\
               deny !domains = example.org\n\
               deny local_parts = nobody\n    message = nobody lives here\n\
               defer local_parts = later\n    message = come again later\n\
               accept\n\
             begin routers\nall:\n  driver = accept\n  transport = maildir\n\
             begin transports\nmaildir:\n  driver = appendfile\n  directory = {mail}\n\
               maildir_format\n  create_directory\n  mode = 0644\n  directory_mode = 0755\n\
               user = Debian-exim\n  group = Debian-exim\n\
             begin authenticators\nplain:\n  driver = plaintext\n  public_name = PLAIN\n\
               server_prompts = :\n  server_set_id = $auth2\n\
               server_condition = ${{if and{{{{eq{{$auth2}}{{{USER}}}}}{{eq{{$auth3}}{{{PASSWORD}}}}}}}}}\n",
            spool = at("spool").display(),
            log = at("log").display(),
            mail = at("mail").display(),
            port = address.port(),
        );
        let file = at("exim.conf");
        fs::write(&file, settings).unwrap();
        let mut command = Command::new(program);
        command.arg("-C").arg(&file).arg("-bdf");
        Some(Self { server: Server::start(command, address, directory) })
    }

    /// The message that was delivered with an attachment of that name.
    pub(crate) fn mail(&self, name: &str) -> Mail {
        let directory = self.server.directory.path().join("mail/new");
        wait_for(name, || {
            mails(&directory).into_iter().find(|mail| mail.attachment(name).is_some())
        })
    }

    /// How many messages were delivered.
    pub(crate) fn delivered(&self) -> usize {
        mails(&self.server.directory.path().join("mail/new")).len()
    }
}

fn mails(directory: &Path) -> Vec<Mail> {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    let read = files.filter_map(|file| Some(Mail { text: fs::read_to_string(file.path()).ok()? }));
    read.collect()
}

impl Mail {
    /// The header fields of the message, unfolded.
    pub(crate) fn fields(&self) -> Vec<String> {
        let head = self.text.split("\n\n").next().unwrap_or_default();
        head.replace("\n ", " ").replace("\n\t", " ").lines().map(str::to_owned).collect()
    }

    /// The value of a field that stands there once.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let fields = self.fields();
        let of_name = fields.iter().filter_map(|field| {
            let (key, value) = field.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        });
        let values: Vec<_> = of_name.collect();
        assert!(values.len() < 2, "{name} stands there {} times", values.len());
        values.into_iter().next()
    }

    /// The bytes of the attachment of that name.
    pub(crate) fn attachment(&self, name: &str) -> Option<Vec<u8>> {
        let (_, part) = self.text.split_once(&format!("filename=\"{name}\""))?;
        let (head, body) = part.split_once("\n\n")?;
        let base64 =
            head.contains("base64") || self.text.contains("Content-Transfer-Encoding: base64");
        assert!(base64, "an attachment is not sent as base64");
        let (body, _) = body.split_once("\n--")?;
        let body: String = body.chars().filter(|c| !c.is_whitespace()).collect();
        STANDARD.decode_to_vec(body).ok()
    }
}
