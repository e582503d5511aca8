//! Java, one file that is run as it is (`java Call.java`), with nothing but its own library: OGC API - Processes.

use super::shell::{placeholder, request};
use super::{ExampleCall, ExampleLogin};

/// With `java.net.http`.
pub(super) fn http(call: &ExampleCall<'_>) -> String {
    let (request, files) = request(call);
    let mut replaced = String::new();
    for file in &files {
        replaced.push_str(&format!(
            "\n            .replace(\"{}\", Base64.getEncoder().encodeToString(Files.readAllBytes(Path.of({}))))",
            placeholder(file),
            string(file)
        ));
    }
    let login = match call.login {
        Some(ExampleLogin::Basic) => {
            "\n            .header(\"Authorization\", \"Basic \" + Base64.getEncoder().encodeToString(\
             (System.getenv(\"FISHPLATE_USER\") + \":\" + System.getenv(\"FISHPLATE_PASSWORD\")).getBytes()))"
        }
        Some(ExampleLogin::Bearer) => {
            "\n            .header(\"Authorization\", \"Bearer \" + System.getenv(\"FISHPLATE_TOKEN\"))"
        }
        None => "",
    };
    let mut imports = String::new();
    if !files.is_empty() {
        imports.push_str("import java.nio.file.*;\n");
    }
    if !files.is_empty() || call.login == Some(ExampleLogin::Basic) {
        imports.push_str("import java.util.Base64;\n");
    }
    format!(
        "// Call.java, run by: java Call.java\n\
         import java.net.URI;\n\
         import java.net.http.*;\n\
         {imports}\n\
         public class Call {{\n\
         \x20   public static void main(String... arguments) throws Exception {{\n\
         \x20       var request = \"\"\"\n\
         \x20           {}\"\"\"{replaced};\n\
         \x20       var call = HttpRequest.newBuilder(URI.create({}))\n\
         \x20           .header(\"Content-Type\", \"application/json\"){login}\n\
         \x20           .POST(HttpRequest.BodyPublishers.ofString(request)).build();\n\
         \x20       var answer = HttpClient.newHttpClient().send(call, HttpResponse.BodyHandlers.ofString());\n\
         \x20       System.out.println(answer.body());\n\
         \x20   }}\n\
         }}",
        text_block(&request),
        string(&call.execution),
    )
}

/// What stands in a text block (JLS 3.10.6).
fn text_block(text: &str) -> String {
    text.replace('\\', "\\\\").replace("\"\"\"", "\\\"\"\"")
}

/// A string literal (JLS 3.10.5).
fn string(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", escaped.replace('\n', "\\n").replace('\r', "\\r"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_ends_where_it_should() {
        assert_eq!(text_block("{\"a\":\"\\\"\"}"), "{\"a\":\"\\\\\"\"}");
        assert_eq!(text_block("\"\"\"\""), "\\\"\"\"\"");
        assert_eq!(string("C:\\a\"b\n"), "\"C:\\\\a\\\"b\\n\"");
    }
}
