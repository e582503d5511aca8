//! CGI scripts in a real web server's cgi-bin: Debian's apache2 with mod_cgid.

use std::fs::{self, File, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User as Account, chown, geteuid};
use tempfile::TempDir;

use crate::curl::curl;
use crate::processes;
use crate::run::User;
use crate::run::packagings;
use crate::server::{FISHPLATE, until};

/// Figure 4 of paper 000, word for word.
const FIGURE_4: &str = "\
#! /bin/bash

oids_server \\
-n arithmetic-test \\
-U urn:test \\
-N 'Arithmetic Server' \\
-- ./add.sh '[in val x:int]' \\
'[in val y:int]' \\
'>' '[out file result:int]'
";

/// Whom Debian's apache2 runs scripts as.
const SCRIPTS_USER: &str = "www-data";

/// A web server with a cgi-bin.
struct Apache {
    dir: TempDir,
    port: u16,
    child: Option<Child>,
}

impl Apache {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let apache = Self { dir, port: 0, child: None };
        open_to_all(apache.dir.path());
        for directory in ["bin", "cgi-bin", "state"] {
            fs::create_dir(apache.path(directory)).unwrap();
            open_to_all(&apache.path(directory));
        }
        // The scripts' user may not get at the build directory.
        fs::copy(FISHPLATE, apache.path("bin/fishplate")).unwrap();
        symlink("fishplate", apache.path("bin/oids_server")).unwrap();
        if let Some(account) = Self::account() {
            chown(&apache.path("state"), Some(account.uid), Some(account.gid)).unwrap();
        }
        apache
    }

    /// Root needs somebody else to run scripts as.
    fn account() -> Option<Account> {
        geteuid().is_root().then(|| {
            let account = Account::from_name(SCRIPTS_USER).unwrap();
            account
                .unwrap_or_else(|| panic!("there is no user {SCRIPTS_USER}: install apache2-bin"))
        })
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    /// All state of the scripts.
    fn data(&self) -> PathBuf {
        self.path("state/data")
    }

    /// Puts an executable into the cgi-bin. `DIR` in its text stands for the directory of all.
    fn script(&self, name: &str, text: &str) {
        let path = self.path("cgi-bin").join(name);
        fs::write(&path, text.replace("DIR", self.dir.path().to_str().unwrap())).unwrap();
        open_to_all(&path);
    }

    fn url(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/cgi-bin/{name}", self.port)
    }

    fn start(&mut self) {
        let program = ["/usr/sbin/apache2", "/usr/bin/apache2", "/sbin/apache2"];
        let program = program.into_iter().find(|path| Path::new(path).exists());
        let program = program.expect("apache2 is missing: install Debian's package apache2-bin");
        if self.port == 0 {
            self.port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        }
        fs::write(self.path("httpd.conf"), self.configuration()).unwrap();
        let errors = File::options().create(true).append(true).open(self.path("errors")).unwrap();
        let search = std::env::var("PATH").unwrap();
        let child = Command::new(program)
            .args(["-D", "FOREGROUND", "-f"])
            .arg(self.path("httpd.conf"))
            .env("PATH", format!("{}:{search}", self.path("bin").display()))
            .env_remove("GATEWAY_INTERFACE")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors)
            .spawn()
            .unwrap();
        self.child = Some(child);
        let port = self.port;
        until("apache2 listens", || {
            let ended = self.child.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "apache2 did not start: {}", self.errors());
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
    }

    fn configuration(&self) -> String {
        let (dir, port) = (self.dir.path().display(), self.port);
        let account = match Self::account() {
            Some(_) => format!("User {SCRIPTS_USER}\nGroup {SCRIPTS_USER}"),
            None => String::new(),
        };
        let modules = ["mpm_event", "authz_core", "alias", "env", "cgid"].map(|name| {
            format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n")
        });
        let modules = modules.concat();
        format!(
            "ServerRoot {dir}\nServerName 127.0.0.1\nListen 127.0.0.1:{port}\n{modules}{account}\n\
             DefaultRuntimeDir {dir}\nPidFile {dir}/pid\nErrorLog {dir}/errors\n\
             ScriptSock {dir}/scripts\nMutex pthread\nStartServers 1\n\
             ScriptAlias /cgi-bin/ {dir}/cgi-bin/\n\
             <Directory {dir}/cgi-bin>\nRequire all granted\n</Directory>\n\
             SetEnv FISHPLATE_DATA {dir}/state/data\n"
        )
    }

    fn stop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        child.wait().unwrap();
    }

    fn errors(&self) -> String {
        fs::read_to_string(self.path("errors")).unwrap_or_default()
    }

    /// Nothing of ours runs once there is nothing to do.
    fn assert_nothing_left(&self) {
        until("engine and supervisor have gone", || {
            processes::of_data(&self.data()).is_empty()
                && processes::of_jobs(&self.data()).is_empty()
        });
    }
}

impl Drop for Apache {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself.
            let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
            let _ = kill(pid, Signal::SIGTERM);
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("apache2 said:\n{}", self.errors());
        }
    }
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_papers_script_and_commands_run_unchanged() {
    let mut apache = Apache::new();
    apache.script("sample.cgi", FIGURE_4);
    apache.script("add.sh", "#!/bin/sh\necho $(($1 + $2))\n");
    apache.start();
    let user = User::new();
    let url = apache.url("sample.cgi");
    let wsdl = format!("{url}?wsdl");

    // Figure 5.
    let usage = user.run_as("oids_tool", &[&wsdl, "--usage"]);
    assert_eq!(usage.code, 0, "{usage:?}");
    let lines: Vec<&str> = usage.stdout.lines().map(str::trim).take(6).collect();
    assert_eq!(lines, ["call", "input:", "x: int", "y: int", "output:", "result: int"]);
    user.write("two", "2\n");
    let call = user.run_as("oids_tool", &[&wsdl, "call", "x=1", "y:two", "out:result"]);
    assert_eq!((call.code, &*call.stdout), (0, ""), "{call:?}");
    assert_eq!(user.read("result"), b"3\n");

    // The address in the WSDL is the script's.
    assert!(user.succeed(&["wsdl", &wsdl]).contains(&format!("location=\"{url}\"")));

    // Asynchronously, each verb a process of its own.
    let job = user.succeed(&["spawn", &url, "x=20", "y=3"]);
    let job = job.trim();
    until("it has ended", || user.succeed(&["running", &url, job]) == "false\n");
    assert_eq!(user.succeed(&["results", &url, job, "out:result"]), "");
    assert_eq!(user.read("result"), b"23\n");
    let status = user.json(&["status", &url, job]);
    assert_eq!((&status["state"], &status["exitCode"]), (&"done".into(), &0.into()));
    user.succeed(&["remove", &url, job]);

    // A fault comes through with its detail.
    let refused = user.run(&["call", &url, "x=one", "y=2"]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.stderr.contains("InvalidValue"), "{refused:?}");
    let page = crate::soap::get_at(("127.0.0.1", apache.port), "/cgi-bin/sample.cgi");
    assert!(page.status == 200 && page.body.contains("Arithmetic Server"), "{page:#?}");
    apache.stop();
    apache.assert_nothing_left();
}

#[test]
fn a_large_file_goes_through_a_script_and_back() {
    let mut apache = Apache::new();
    apache.script(
        "copy",
        "#!/bin/sh\nexec fishplate cgi -n copy -- ./copy.sh '[in file deck:raw]' '[out file copy:raw]'\n",
    );
    apache.script("copy.sh", "#!/bin/sh\ncat \"$1\" > \"$2\"\n");
    apache.start();
    let user = User::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(5_000_001).collect();
    user.write("deck", &bytes);
    for packaging in packagings() {
        let words =
            ["call", &apache.url("copy"), "deck:deck", "out:copy", "--packaging", packaging];
        user.succeed(&words);
        assert_eq!(user.read("copy"), bytes, "{packaging}");
    }
    apache.stop();
    apache.assert_nothing_left();
}

#[test]
fn queued_jobs_advance_with_no_server_and_no_request_alive() {
    let mut apache = Apache::new();
    apache.script("queue", "#!/bin/sh\nexec fishplate cgi ./queue.toml\n");
    apache.script(
        "queue.toml",
        "name = \"queue\"\nmax_running = 1\n\
         command = \"./work.sh [in val x:int] > [out file y:int]\"\n",
    );
    apache.script(
        "work.sh",
        "#!/bin/sh\necho start $1 >> DIR/state/story\n\
         until [ -e DIR/state/go$1 ]; do sleep 0.05; done\n\
         echo end $1 >> DIR/state/story; echo $1\n",
    );
    apache.start();
    let user = User::new();
    let url = apache.url("queue");
    let spawn = |x: &str| user.succeed(&["spawn", &url, x]).trim().to_owned();
    let story = || fs::read_to_string(apache.path("state/story")).unwrap_or_default();
    let jobs = ["x=1", "x=2", "x=3", "x=4"].map(spawn);
    until("the first runs", || story() == "start 1\n");
    let state = |job: &str| user.json(&["status", &url, job])["state"].clone();
    assert_eq!([&jobs[0], &jobs[1]].map(|job| state(job)), ["running", "queued"]);
    // A queued one is killed before it starts, a running one in the middle.
    assert_eq!(user.succeed(&["kill", &url, &jobs[2]]), "killed\n");
    let port = apache.port;
    apache.stop();
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());

    let story = || fs::read_to_string(apache.path("state/story")).unwrap_or_default();
    fs::write(apache.path("state/go1"), "").unwrap();
    until("the second runs", || story() == "start 1\nend 1\nstart 2\n");
    fs::write(apache.path("state/go2"), "").unwrap();
    until("the fourth runs", || story() == "start 1\nend 1\nstart 2\nend 2\nstart 4\n");

    apache.start();
    assert_eq!(user.succeed(&["results", &url, &jobs[0]]), "y: 1\n");
    assert_eq!(user.succeed(&["results", &url, &jobs[1]]), "y: 2\n");
    assert_eq!(user.run(&["results", &url, &jobs[2]]).code, 5);
    assert_eq!(user.succeed(&["kill", &url, &jobs[3]]), "killed\n");
    assert_eq!(user.json(&["status", &url, &jobs[3]])["state"], "killed");
    apache.stop();
    apache.assert_nothing_left();
}

#[test]
fn data_by_reference_goes_through_a_script_too() {
    let mut apache = Apache::new();
    apache.script(
        "copy",
        "#!/bin/sh\nexec fishplate cgi -n copy -- ./copy.sh '[in file deck:raw]' '[out file copy:raw]'\n",
    );
    apache.script("copy.sh", "#!/bin/sh\ncat \"$1\" > \"$2\"\n");
    apache.start();
    let user = User::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(5_000_001).collect();
    user.write("deck", &bytes);
    let url = apache.url("copy");
    let put = curl(&["-T", user.path("deck").to_str().unwrap(), &format!("{url}/data/")]);
    assert_eq!(put.status, 201, "{put:?} {}", apache.errors());
    let deck = put.text();
    assert!(deck.starts_with(&format!("{url}/data/")) && deck.ends_with("/deck"), "{deck}");
    let part = curl(&["--range", "5000000-", deck]);
    assert_eq!((part.status, &part.body[..]), (206, &bytes[5_000_000..]));
    // The engine that the script starts has it fetched, and the answer of another process refers.
    let job = user.succeed(&["spawn", &url, &format!("deck@{deck}")]);
    assert_eq!(user.succeed(&["wait", &url, job.trim()]), "done\n");
    let said = user.succeed(&["results", &url, job.trim(), "ref:copy"]);
    let copy = said.trim().strip_prefix("copy: ").unwrap();
    assert!(curl(&[copy]).body == bytes);
    // In a session the engine itself gives the address.
    let service = format!("{url}/session");
    let opened = user.succeed(&["call", &service, "--operation", "open"]);
    let id = opened.lines().find_map(|line| line.strip_prefix("session: ")).unwrap().to_owned();
    let job = user.succeed(&["spawn", &url, &format!("deck@{copy}"), "--session", &id]);
    assert_eq!(user.succeed(&["wait", &url, job.trim()]), "done\n");
    let said = user.succeed(&["results", &url, job.trim()]);
    let copy = said.trim().strip_prefix("copy: ").unwrap();
    assert!(copy.starts_with(&format!("{url}/session/")) && copy.ends_with("/copy"), "{copy}");
    assert!(!copy.contains(&id), "the address of a file gives its session away: {copy}");
    assert!(curl(&[copy]).body == bytes);
    apache.stop();
}
