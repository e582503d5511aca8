//! The names of the papers: linked as `oids_tool` and `oids_server`, the binary takes Figures 4
//! and 5 of paper 000 word for word.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use fishplate_contract::Verb;

/// The command line in the words of `fishplate`, whatever name it was called by.
///
/// - `oids_tool URL --usage` is `fishplate usage URL`
/// - `oids_tool URL VERB ...` is `fishplate VERB URL ...`; a VERB that is none of ours is an
///   operation of the service: `fishplate call URL --operation VERB ...`
/// - `oids_server ...` is `fishplate cgi ...` in a CGI script, else `fishplate serve ...`
pub(crate) fn rewritten(arguments: Vec<OsString>, under_cgi: bool) -> Vec<OsString> {
    let called = arguments.first().map(Path::new).and_then(Path::file_name);
    match called.and_then(OsStr::to_str) {
        Some("oids_tool") => tool(&arguments[1..]),
        Some("oids_server") => {
            let command = if under_cgi { "cgi" } else { "serve" };
            if asks_for_itself(arguments.get(1)) {
                return line(&[], &arguments[1..]);
            }
            line(&[command.as_ref()], &arguments[1..])
        }
        _ => arguments,
    }
}

fn tool(arguments: &[OsString]) -> Vec<OsString> {
    if let Some(at) = arguments.iter().position(|argument| argument == "--usage") {
        let others = [&arguments[..at], &arguments[at + 1..]].concat();
        return line(&["usage".as_ref()], &others);
    }
    let Some((url, rest)) = arguments.split_first() else { return line(&["help".as_ref()], &[]) };
    if asks_for_itself(Some(url)) {
        return line(&[], arguments);
    }
    match rest.split_first() {
        None => line(&["usage".as_ref(), url], &[]),
        Some((verb, rest)) if is_verb(verb) => line(&[verb, url], rest),
        Some((flag, _)) if flag.as_encoded_bytes().starts_with(b"-") => {
            line(&["usage".as_ref(), url], rest)
        }
        Some((operation, rest)) => {
            line(&["call".as_ref(), url, "--operation".as_ref(), operation], rest)
        }
    }
}

/// A verb of ours, or what we do beside them with a service.
fn is_verb(word: &OsStr) -> bool {
    let mut known = Verb::ALL.map(Verb::name).into_iter().chain(["usage", "wait", "wsdl"]);
    known.any(|known| word == known)
}

fn asks_for_itself(argument: Option<&OsString>) -> bool {
    argument.is_some_and(|argument| {
        ["-h", "--help", "-V", "--version"].iter().any(|flag| argument == flag)
    })
}

fn line(first: &[&OsStr], rest: &[OsString]) -> Vec<OsString> {
    let first = std::iter::once(OsStr::new("fishplate")).chain(first.iter().copied());
    first.map(OsStr::to_owned).chain(rest.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten_line(line: &str, under_cgi: bool) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        let words = rewritten(words, under_cgi);
        words.join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn figures_4_and_5_are_understood_word_for_word() {
        for (line, expected) in [
            ("oids_tool U?wsdl --usage", "fishplate usage U?wsdl"),
            ("/usr/bin/oids_tool --usage U", "fishplate usage U"),
            (
                "oids_tool U?wsdl call x=1 y:two out:result",
                "fishplate call U?wsdl x=1 y:two out:result",
            ),
            ("oids_tool U running job=7", "fishplate running U job=7"),
            ("oids_tool U results 7 out:r --json", "fishplate results U 7 out:r --json"),
            ("oids_tool U mesh size=1", "fishplate call U --operation mesh size=1"),
            ("oids_tool U", "fishplate usage U"),
            ("oids_tool U --json", "fishplate usage U --json"),
            ("oids_tool --version", "fishplate --version"),
            ("oids_tool", "fishplate help"),
            (
                "oids_server -n a -U urn:test -- ./a.sh",
                "fishplate serve -n a -U urn:test -- ./a.sh",
            ),
            ("oids_server --help", "fishplate --help"),
            ("fishplate call U x=1", "fishplate call U x=1"),
            ("./anything serve f.toml", "./anything serve f.toml"),
        ] {
            assert_eq!(rewritten_line(line, false), expected);
        }
        let script = "oids_server -n a -U urn:test -N T -- ./a.sh";
        assert_eq!(rewritten_line(script, true), "fishplate cgi -n a -U urn:test -N T -- ./a.sh");
    }
}
