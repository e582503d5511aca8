//! The environment of a service's programs, kept for its jobs: a job may start when the server has
//! long ended, or under another one.
//!
//! Of the server's own environment programs get what any program needs to run here ([`INHERITED`]) and
//! what their service names (`pass_environment`): what else is there, an operator's credentials
//! among it, is not theirs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, OpenOptions};
use std::hash::Hasher;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use xxhash_rust::xxh3::Xxh3;

/// An environment by names of variables.
pub type Variables = BTreeMap<String, String>;

/// An environment that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// `module load` failed.
    #[error("cannot load the modules {}: {reason}", modules.join(", "))]
    Modules {
        /// Names of the modules.
        modules: Vec<String>,
        /// What the shell said.
        reason: String,
    },
    /// The login shell for modules cannot be started.
    #[error("cannot start a login shell (bash) to load modules")]
    Shell(#[source] io::Error),
    /// A service asks for what the server keeps to itself.
    #[error(
        "the variable {0} holds a secret of the server's transfers, and no program gets it; \
         take it out of pass_environment"
    )]
    Secret(String),
    /// The file cannot be written.
    #[error("cannot keep the environment in {}", path.display())]
    Keep {
        /// Path of the file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// The longest that loading modules may take.
const MODULES_TIMEOUT: Duration = Duration::from_secs(120);

/// Stands between what a login shell's start-up files print and the environment.
const MARK: &[u8] = b"\0fishplate environment\0";

/// Variables that every program gets if the server has them: who runs it, where programs, libraries
/// and temporary files are, the language, and what environment modules and OpenMP go by. A `*` at
/// the end stands for anything.
pub const INHERITED: [&str; 23] = [
    "CONDA_DEFAULT_ENV",
    "CONDA_PREFIX",
    "HOME",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "LD_LIBRARY_PATH",
    "LMOD_*",
    "LOADEDMODULES",
    "LOGNAME",
    "MODULEPATH*",
    "MODULESHOME",
    "MODULES_*",
    "OMP_*",
    "PATH",
    "PYTHONPATH",
    "SHELL",
    "TMPDIR",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
    "_LMFILES_",
    "__MODULES_*",
];

/// What is handed on of the server's environment.
#[derive(Clone, Debug, Default)]
pub struct Inheritance {
    /// Names beyond [`INHERITED`]; a `*` at the end stands for anything.
    pub pass: Vec<String>,
    /// Names of secrets, which nobody gets.
    pub secrets: BTreeSet<String>,
}

impl Inheritance {
    /// The environment of this process, as far as it goes for its jobs too. Variables that are not
    /// UTF-8 are left out.
    ///
    /// # Errors
    /// If a secret is asked for by its name.
    pub fn own(&self) -> Result<Variables, EnvironmentError> {
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        self.of(variables.collect())
    }

    /// Leaves out our own variables too (a server that was itself started by a job must not hand on
    /// that job's name), those of the place, and in a CGI script those of the request: they come from
    /// callers, and no caller may reach a program's environment.
    fn of(&self, mut variables: Variables) -> Result<Variables, EnvironmentError> {
        if let Some(secret) = self.pass.iter().find(|name| self.secrets.contains(*name)) {
            return Err(EnvironmentError::Secret(secret.clone()));
        }
        let is_cgi = variables.contains_key("GATEWAY_INTERFACE");
        let of_the_request =
            |name: &str| OF_THE_REQUEST.iter().any(|known| name.starts_with(known));
        variables.retain(|name, _| {
            let mut inherited = INHERITED.into_iter().chain(self.pass.iter().map(String::as_str));
            inherited.any(|pattern| matches(pattern, name))
                && !self.withholds(name)
                && (!is_cgi || !of_the_request(name))
        });
        Ok(variables)
    }

    /// Leaves out what no program gets, wherever it comes from: a login shell may set it too.
    fn withhold(&self, variables: &mut Variables) {
        variables.retain(|name, _| !self.withholds(name));
    }

    fn withholds(&self, name: &str) -> bool {
        name.starts_with("FISHPLATE_")
            || OF_THE_PLACE.contains(&name)
            || self.secrets.contains(name)
    }
}

/// Whether a pattern, a name or how names begin and a `*`, is true of a name.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

/// Variables about the directory and the shell in which a process was started.
const OF_THE_PLACE: [&str; 4] = ["_", "SHLVL", "PWD", "OLDPWD"];

/// What a web server tells a CGI script about a request (RFC 3875, section 4.1, and Apache's own):
/// these or what begins with these.
const OF_THE_REQUEST: [&str; 21] = [
    "AUTH_TYPE",
    "CONTENT_",
    "CONTEXT_",
    "DOCUMENT_",
    "GATEWAY_INTERFACE",
    "H2PUSH",
    "H2_",
    "HTTP2",
    "HTTPS",
    "HTTP_",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "REDIRECT_",
    "REMOTE_",
    "REQUEST_",
    "SCRIPT_",
    "SERVER_",
    "SSL_",
    "UNIQUE_ID",
    "proxy-",
];

/// An environment with these modules loaded by a login shell. The names come from the service's
/// owner, and are arguments of a fixed script.
///
/// # Errors
/// If there is no bash or no `module`, or a module cannot be loaded; if a secret is asked for.
pub fn with_modules(
    modules: &[String],
    inheritance: &Inheritance,
) -> Result<Variables, EnvironmentError> {
    let mut variables = from_login_shell(modules, &inheritance.own()?)?;
    inheritance.withhold(&mut variables);
    Ok(variables)
}

fn from_login_shell(modules: &[String], start: &Variables) -> Result<Variables, EnvironmentError> {
    const SCRIPT: &str =
        r#"module load "$@" >&2 && printf '\0fishplate environment\0' && exec env -0"#;
    let mut child = Command::new("bash")
        .args(["-lc", SCRIPT, "bash"])
        .args(modules)
        .env_clear()
        .envs(start)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(EnvironmentError::Shell)?;
    let failed = |reason: String| EnvironmentError::Modules { modules: modules.to_owned(), reason };
    let output = reader(child.stdout.take());
    let errors = reader(child.stderr.take());
    let success = wait(&mut child).map_err(|error| failed(error.to_string()))?;
    let output = output.join().unwrap_or_default();
    let errors = errors.join().unwrap_or_default();
    if !success {
        let text = String::from_utf8_lossy(&errors);
        let reason = text.trim();
        return Err(failed(if reason.is_empty() { "module failed" } else { reason }.to_owned()));
    }
    let start =
        after_mark(&output).ok_or_else(|| failed("the shell told no environment".to_owned()))?;
    Ok(parse(&output[start..]))
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before an error is all there is.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// Whether the shell ended well; one that takes too long is killed.
fn wait(child: &mut Child) -> io::Result<bool> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if started.elapsed() > MODULES_TIMEOUT {
            child.kill()?;
            child.wait()?;
            let seconds = MODULES_TIMEOUT.as_secs();
            return Err(io::Error::other(format!("not done after {seconds} s")));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Where the environment begins.
fn after_mark(output: &[u8]) -> Option<usize> {
    output.windows(MARK.len()).position(|window| window == MARK).map(|start| start + MARK.len())
}

/// The output of `env -0`, without what is the shell's own.
fn parse(output: &[u8]) -> Variables {
    output
        .split(|byte| *byte == 0)
        .filter_map(|variable| std::str::from_utf8(variable).ok()?.split_once('='))
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Keeps an environment in a file below `directory` that only its owner may read, and gives the
/// file's absolute path. The same environment is kept once.
///
/// # Errors
/// If it cannot be written.
pub fn keep(variables: &Variables, directory: &Path) -> Result<PathBuf, EnvironmentError> {
    let failed = |source| EnvironmentError::Keep { path: directory.to_owned(), source };
    let directory = std::path::absolute(directory).map_err(failed)?;
    DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(failed)?;
    let json = serde_json::to_vec(variables).map_err(|error| failed(error.into()))?;
    let mut hasher = Xxh3::new();
    hasher.write(&json);
    let mut hash = hasher.finish();
    loop {
        let path = directory.join(format!("{hash:016x}.json"));
        match std::fs::read(&path) {
            Ok(kept) if kept == json => return Ok(path),
            // Another environment of the same hash: the next name, deterministically.
            Ok(_) => hash = hash.wrapping_add(1),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                write(&path, &json).map_err(failed)?;
                return Ok(path);
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Writes a file at once: it is there whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn handed_on(pass: &[&str], variables: &[&str]) -> Result<Vec<String>, EnvironmentError> {
        let inheritance = Inheritance {
            pass: pass.iter().map(|name| (*name).to_owned()).collect(),
            secrets: BTreeSet::from(["MESHES_SECRET_KEY".to_owned()]),
        };
        let all = variables.iter().map(|name| ((*name).to_owned(), String::new()));
        Ok(inheritance.of(all.collect())?.into_keys().collect())
    }

    #[test]
    fn a_program_gets_what_any_needs_and_what_its_service_names() {
        let variables = [
            "AWS_SECRET_ACCESS_KEY",
            "FISHPLATE_JOB",
            "FOAM_ETC",
            "FOAM_TUTORIALS",
            "HOME",
            "LC_ALL",
            "MESHES_SECRET_KEY",
            "PATH",
            "PATHS",
            "PWD",
            "_",
        ];
        assert_eq!(handed_on(&[], &variables).unwrap(), ["HOME", "LC_ALL", "PATH"]);
        assert_eq!(
            handed_on(&["FOAM_ETC", "LICENCE"], &variables).unwrap(),
            ["FOAM_ETC", "HOME", "LC_ALL", "PATH"]
        );
        let foam = ["FOAM_ETC", "FOAM_TUTORIALS", "HOME", "LC_ALL", "PATH"];
        assert_eq!(handed_on(&["FOAM_*"], &variables).unwrap(), foam);
    }

    #[test]
    fn no_program_gets_a_secret_of_transfers() {
        let variables = ["MESHES_SECRET_KEY", "OTHER"];
        assert_eq!(handed_on(&["*"], &variables).unwrap(), ["OTHER"]);
        let named = handed_on(&["MESHES_SECRET_KEY"], &variables).unwrap_err();
        assert!(named.to_string().contains("MESHES_SECRET_KEY"), "{named}");
    }

    #[test]
    fn callers_do_not_reach_the_environment_through_cgi() {
        let variables = ["PATH", "HTTP_PROXY", "QUERY_STRING", "REMOTE_PORT", "SSL_CERT_FILE"];
        assert_eq!(
            handed_on(&["*"], &variables).unwrap(),
            ["HTTP_PROXY", "PATH", "QUERY_STRING", "REMOTE_PORT", "SSL_CERT_FILE"]
        );
        let request = [&variables[..], &["GATEWAY_INTERFACE"]].concat();
        assert_eq!(handed_on(&["*"], &request).unwrap(), ["PATH"]);
        assert_eq!(handed_on(&["HTTP_PROXY"], &request).unwrap(), ["PATH"]);
    }

    #[test]
    fn the_same_environment_is_kept_once_and_for_its_owner_only() {
        let directory = tempfile::tempdir().unwrap();
        let environments = directory.path().join("environments");
        let variables = Variables::from([("A".to_owned(), "1\n2".to_owned())]);
        let path = keep(&variables, &environments).unwrap();
        assert_eq!(keep(&variables, &environments).unwrap(), path);
        assert_eq!(std::fs::read_dir(&environments).unwrap().count(), 1);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(&environments).unwrap().permissions().mode() & 0o777, 0o700);
        let kept: Variables = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(kept, variables);
    }

    #[test]
    fn a_file_of_the_same_hash_with_another_content_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let variables = Variables::from([("A".to_owned(), "1".to_owned())]);
        let path = keep(&variables, directory.path()).unwrap();
        std::fs::write(&path, "{}").unwrap();
        let other = keep(&variables, directory.path()).unwrap();
        assert_ne!(other, path);
        assert_eq!(std::fs::read(&path).unwrap(), b"{}");
        assert_eq!(keep(&variables, directory.path()).unwrap(), other);
    }

    #[test]
    fn what_start_up_files_print_is_no_part_of_the_environment() {
        let output = b"Welcome!\nA=0\0\0fishplate environment\0A=1\nx\0_=/usr/bin/env\0B=\0";
        let variables = parse(&output[after_mark(output).unwrap()..]);
        let expected = [("A", "1\nx"), ("B", ""), ("_", "/usr/bin/env")];
        let expected = expected.map(|(n, v)| (n.to_owned(), v.to_owned()));
        assert_eq!(variables, Variables::from(expected));
    }

    #[test]
    fn a_module_changes_the_environment_and_its_name_is_never_read_by_the_shell() {
        let directory = tempfile::tempdir().unwrap();
        let name = "demo/$(touch breached);1.2";
        std::fs::create_dir(directory.path().join("demo")).unwrap();
        let file = "#%Module1.0\nsetenv DEMO_ROOT /opt/demo\nprepend-path PATH /opt/demo/bin\n";
        std::fs::write(directory.path().join("demo/1.2"), file).unwrap();
        let mut start = Inheritance::default().own().unwrap();
        start.insert("MODULEPATH".to_owned(), directory.path().to_str().unwrap().to_owned());
        start.insert("HOME".to_owned(), directory.path().to_str().unwrap().to_owned());
        assert!(from_login_shell(&[name.to_owned()], &start).is_err());
        assert!(!Path::new("breached").exists());
        match from_login_shell(&["demo/1.2".to_owned()], &start) {
            Ok(variables) => {
                assert_eq!(variables["DEMO_ROOT"], "/opt/demo");
                assert!(variables["PATH"].starts_with("/opt/demo/bin:"), "{}", variables["PATH"]);
            }
            // A machine without environment modules: then that is what the error says.
            Err(error) => assert!(error.to_string().contains("not found"), "{error}"),
        }
    }

    #[test]
    fn what_a_login_shell_sets_is_handed_on_but_for_secrets() {
        let home = tempfile::tempdir().unwrap();
        let profile = "module() { export LOADED=\"$2\"; }\n\
                       export MESHES_SECRET_KEY=s FISHPLATE_JOB=j TOOL=t\n";
        std::fs::write(home.path().join(".bash_profile"), profile).unwrap();
        let mut start = Inheritance::default().own().unwrap();
        start.insert("HOME".to_owned(), home.path().to_str().unwrap().to_owned());
        let mut variables = from_login_shell(&["gcc".to_owned()], &start).unwrap();
        assert_eq!(variables["MESHES_SECRET_KEY"], "s");
        let secrets = BTreeSet::from(["MESHES_SECRET_KEY".to_owned()]);
        Inheritance { pass: Vec::new(), secrets }.withhold(&mut variables);
        assert_eq!([&*variables["LOADED"], &*variables["TOOL"]], ["gcc", "t"]);
        for name in ["MESHES_SECRET_KEY", "FISHPLATE_JOB", "_", "PWD"] {
            assert!(!variables.contains_key(name), "{name}");
        }
    }

    #[test]
    fn a_module_that_does_not_exist_is_an_error_that_names_it() {
        let error =
            with_modules(&["fishplate-no-such-module/0".to_owned()], &Inheritance::default())
                .unwrap_err();
        let EnvironmentError::Modules { reason, .. } = &error else { panic!("{error}") };
        assert!(!reason.is_empty());
        assert!(error.to_string().contains("fishplate-no-such-module/0"), "{error}");
    }
}
