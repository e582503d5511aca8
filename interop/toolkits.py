"""The toolkits: what each needs, how its stubs are made, and which checks it has to make."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import preparation
from preparation import JAVA, run, say
from toolkit import HERE, LARGE, Place, Toolkit


class Zeep(Toolkit):
    def missing_packages(self) -> list[str]:
        return preparation.venv_packages()

    def prepare(self, place: Place) -> None:
        preparation.zeep(place.cache)

    def command(self, place: Place) -> list[str]:
        return [str(preparation.zeep(place.cache)), str(HERE / "zeep/client.py")]


class Python(Toolkit):
    """Libraries for Python, in an environment of their own; the client is `NAME/client.py`."""

    requirements: tuple[str, ...] = ()

    def missing_packages(self) -> list[str]:
        return super().missing_packages() + preparation.venv_packages()

    def prepare(self, place: Place) -> None:
        self.python(place)

    def python(self, place: Place) -> Path:
        versions = "-".join(requirement.split("==")[1] for requirement in self.requirements)
        return preparation.venv(place.cache / f"{self.name}-{versions}", *self.requirements)

    def command(self, place: Place) -> list[str]:
        return [str(self.python(place)), str(HERE / self.name / "client.py")]


class Suds(Python):
    requirements = ("suds-community==1.2.0",)


class PySimpleSoap(Python):
    requirements = ("PySimpleSOAP==1.16.2",)


class Ogc(Python):
    """Tools that know OGC API - Processes and OpenAPI, and no SOAP."""

    requirements = ("owslib==0.35.0", "schemathesis==4.32.5", "jsonschema==4.26.0", "openapi-spec-validator==0.9.0",
                    "PyYAML==6.0.3")


class Descriptions(Python):
    """cwltool and bosh, on what is exported; and what they run as services."""

    requirements = ("cwltool==3.3.20260925135507", "boutiques==0.5.33")

    def command(self, place: Place) -> list[str]:
        return [*super().command(place), str(place.binary)]


class Examples(Toolkit):
    """The calls that a service's page shows, each run as it stands there."""

    def missing_packages(self) -> list[str]:
        return super().missing_packages() + preparation.venv_packages()

    def prepare(self, place: Place) -> None:
        self.environment |= {"EXAMPLES_ZEEP": str(preparation.zeep(place.cache)),
                             "EXAMPLES_PYTHON": str(HERE.parent / ".venv/bin/python"),
                             "EXAMPLES_BINARIES": str(place.binary.parent)}

    def command(self, place: Place) -> list[str]:
        return [sys.executable, str(HERE / "examples/client.py")]


# With the programs of `make demo`.
PIPE_CHECKS = ("pipe-mesher", "pipe-gas", "pipe-picture")


class Browser(Toolkit):
    """Debian's Chromium on the pages, driven by playwright-core, which downloads no browser; axe-core looks at them too."""

    def prepare(self, place: Place) -> None:
        self.environment |= {"NODE_PATH": str(preparation.browser(place.cache)), "BROWSER_FISHPLATE": str(place.binary),
                             "BROWSER_SERVICE": str(HERE.parent / "examples/progress/countdown.toml")}

    def command(self, place: Place) -> list[str]:
        return ["node", str(HERE / "browser/client.cjs")]


class Mcp(Python):
    """The official Python SDK of the Model Context Protocol; it drives a server of its own, and `fishplate mcp`."""

    requirements = ("mcp==2.3.0",)

    def command(self, place: Place) -> list[str]:
        return [*super().command(place), str(place.binary)]


class McpConformance(Toolkit):
    """The protocol's conformance suite, on a server of its own. It does not start on Node.js 20 (`fs.globSync`)."""

    def missing_packages(self) -> list[str]:
        return super().missing_packages() + preparation.venv_packages()

    def prepare(self, place: Place) -> None:
        preparation.node(place.cache)
        preparation.mcp_conformance(place.cache)

    def command(self, place: Place) -> list[str]:
        return [sys.executable, str(HERE / "mcp-conformance/client.py"), str(preparation.node(place.cache)),
                str(preparation.mcp_conformance(place.cache)), str(place.binary)]


class Node(Toolkit):
    version = "1.13.0"

    def prepare(self, place: Place) -> None:
        modules = preparation.node_modules(place.cache / f"node-soap-{self.version}", f"soap@{self.version}")
        self.environment["NODE_PATH"] = str(modules)

    def command(self, place: Place) -> list[str]:
        return ["node", str(HERE / "node/client.cjs")]


class Php(Toolkit):
    def missing_packages(self) -> list[str]:
        missing = super().missing_packages()
        if not missing:
            modules = subprocess.run(["php", "-m"], capture_output=True, text=True, check=True)
            if "soap" not in modules.stdout.split():
                missing = ["php-soap"]
        return missing + (["php-soap"] if "php-cli" in missing else [])

    def command(self, place: Place) -> list[str]:
        return ["php", "-d", "soap.wsdl_cache_enabled=0", str(HERE / "php/client.php")]


SHARE = Path("/usr/share/gsoap")


class Gsoap(Toolkit):
    sources = (HERE / "gsoap/client.cpp",)

    def missing_packages(self) -> list[str]:
        missing = super().missing_packages()
        return missing + ([] if Path("/usr/include/stdsoap2.h").exists() else ["libgsoap-dev"])

    def directory(self, place: Place) -> Path:
        return place.cache / self.name / place.digest(self.descriptions, *self.sources)

    def prepare(self, place: Place) -> None:
        directory = self.directory(place)
        if (directory / "complete").exists():
            return
        shutil.rmtree(directory.parent, ignore_errors=True)
        directory.mkdir(parents=True)
        self.build(place, directory)
        (directory / "complete").touch()

    def build(self, place: Place, directory: Path) -> None:
        self.stubs(place, directory)
        self.compile(directory, "client", "-lgsoap++")

    def stubs(self, place: Place, directory: Path, imports: str = "") -> None:
        say("making stubs (wsdl2h, soapcpp2) and compiling")
        wsdls = [str(place.wsdl[name]) for name in self.descriptions]
        run(["wsdl2h", "-O1", "-o", "services.h", *wsdls], directory)
        with (directory / "services.h").open("a") as header:
            header.write(imports)
        run(["soapcpp2", "-C", "-j", "-x", "-w", f"-I{SHARE}/import", "services.h"], directory)

    def compile(self, directory: Path, name: str, *words: str) -> None:
        sources = sorted(str(path.name) for path in directory.glob("*.cpp"))
        run(["c++", "-std=c++17", "-O0", "-I.", str(HERE / f"gsoap/{name}.cpp"), *sources,
             *words, "-o", name], directory)

    def command(self, place: Place) -> list[str]:
        return [str(self.directory(place) / "client")]


class GsoapWsse(Gsoap):
    """With its plugin `wsse`, of which Debian has the sources, and OpenSSL."""

    sources = (HERE / "gsoap/wsse.cpp",)

    def missing_packages(self) -> list[str]:
        headers = {"openssl/ssl.h": "libssl-dev", "zlib.h": "zlib1g-dev"}
        return super().missing_packages() + [
            package for header, package in headers.items() if not Path("/usr/include", header).exists()]

    def build(self, place: Place, directory: Path) -> None:
        self.stubs(place, directory, '#import "wsse.h"\n')
        plugin = [f"{SHARE}/{path}" for path in (
            "plugin/wsseapi.cpp", "plugin/smdevp.c", "plugin/mecevp.c", "plugin/threads.c",
            "custom/struct_timeval.c")]
        # As the library was compiled (pkg-config --cflags gsoapssl++).
        library = [f"-DWITH_{what}" for what in ("OPENSSL", "GZIP", "IPV6", "DOM")]
        self.compile(directory, "wsse", "-w", *library, f"-I{SHARE}/plugin", *plugin,
                     "-lgsoapssl++", "-lssl", "-lcrypto", "-lz")

    def command(self, place: Place) -> list[str]:
        return [str(self.directory(place) / "wsse")]


class GsoapServer(Gsoap):
    """The other direction: a service of gSOAP's own, called by our client."""

    sources = (HERE / "gsoap/echo.h", HERE / "gsoap/server.cpp")

    def build(self, place: Place, directory: Path) -> None:
        say("making a service (soapcpp2) and compiling")
        run(["soapcpp2", "-S", "-j", "-x", str(HERE / "gsoap/echo.h")], directory)
        self.compile(directory, "server", "-lgsoap++")

    def command(self, place: Place) -> list[str]:
        directory = self.directory(place)
        return [sys.executable, str(HERE / "gsoap/called.py"), str(place.binary),
                str(directory / "server"), str(directory / "Echo.wsdl")]


class Maven(Toolkit):
    """A toolkit whose libraries Maven fetches, for the `pom.xml` in its directory."""

    def directory(self, place: Place) -> Path:
        sources = sorted((HERE / self.name).iterdir())
        return place.cache / self.name / place.digest(self.descriptions, *sources)

    def prepare(self, place: Place) -> None:
        directory = self.directory(place)
        if (directory / "complete").exists():
            return
        shutil.rmtree(directory.parent, ignore_errors=True)
        (directory / "wsdl").mkdir(parents=True)
        for name in self.descriptions:
            shutil.copy(place.wsdl[name], directory / "wsdl" / f"{name}.wsdl")
        shutil.copy(HERE / self.name / "pom.xml", directory)
        (directory / "src").mkdir()
        for source in (HERE / self.name).glob("*.java"):
            shutil.copy(source, directory / "src")
        self.build(directory)
        (directory / "complete").touch()

    def build(self, directory: Path) -> None:
        raise NotImplementedError(self.name)

    def command(self, place: Place) -> list[str]:
        directory = self.directory(place)
        return ["java", "-XX:TieredStopAtLevel=1", "-cp", preparation.class_path(directory), "Client"]


class Cxf(Maven):
    def build(self, directory: Path) -> None:
        say("making stubs (wsdl2java) and compiling with Maven; the first time downloads CXF")
        preparation.maven(directory)


class OgcEts(Toolkit):
    """The executable test suite of OGC API - Processes, against a server of its own. Maven Central has what it needs but not the suite
    itself, so it is built from its sources: of the directory OGC_ETS, or as GitHub has them."""

    source = "https://github.com/opengeospatial/ets-ogcapi-processes10"
    commit = "75abd1f"

    def prepare(self, place: Place) -> None:
        directory = self.directory(place)
        if (directory / "complete").exists():
            return
        shutil.rmtree(directory, ignore_errors=True)
        say("building the test suite with Maven; the first time downloads what it needs")
        run(["git", "clone", "--quiet", os.environ.get("OGC_ETS", self.source), str(directory)])
        run(["git", "checkout", "--quiet", self.commit], directory)
        # Debian's Maven is older than it wants, and does as well.
        run(["mvn", "-B", "-q", "-Denforcer.skip=true", "-Dmaven.buildNumber.skip=true", "compile", "dependency:build-classpath",
             "-Dmdep.outputFile=classpath"], directory)
        # Its pom leaves out what a test sends.
        shutil.copytree(directory / "src/main/resources/org/opengis/cite/testdata",
                        directory / "target/classes/org/opengis/cite/testdata")
        run(["javac", "-nowarn", "-d", "target/classes", "-cp", preparation.class_path(directory),
             str(HERE / "ogc/ets/Client.java")], directory)
        (directory / "complete").touch()

    def directory(self, place: Place) -> Path:
        return place.cache / f"{self.name}-{self.commit}"

    def command(self, place: Place) -> list[str]:
        jars = preparation.class_path(self.directory(place))
        return [sys.executable, str(HERE / "ogc/ets/ets.py"), str(place.binary), jars]


class Axis(Maven):
    def build(self, directory: Path) -> None:
        say("making stubs (WSDL2Java) and compiling; the first time downloads Axis 1.4 with Maven")
        run(["mvn", "-B", "-q", "dependency:build-classpath", "-Dmdep.outputFile=classpath"], directory)
        jars = preparation.class_path(directory)
        for name in self.descriptions:
            package = name.replace("-", "")
            run(["java", "-cp", jars, "org.apache.axis.wsdl.WSDL2Java", "-p", package, "-o", "src",
                 f"wsdl/{name}.wsdl"], directory)
        sources = [str(path) for path in directory.glob("src/**/*.java")]
        run(["javac", "-nowarn", "-d", "target/classes", "-cp", jars, *sources], directory)


    def checks(self) -> list[str]:
        # Without an attachment in the request, a Call with `href` is answered in base64.
        return [check for check in super().checks() if not check.startswith("swa spawn")]


class Curl(Toolkit):
    def command(self, place: Place) -> list[str]:
        return [str(HERE / "curl/client.sh")]


class DimeTools(Toolkit):
    def missing_packages(self) -> list[str]:
        found = shutil.which("perl") and subprocess.run(
            ["perl", "-MDIME::Message", "-MHTTP::Tiny", "-e", "1"], capture_output=True, check=False)
        return [] if found and found.returncode == 0 else ["perl", "libdime-tools-perl"]

    def command(self, place: Place) -> list[str]:
        return ["perl", str(HERE / "dime-tools/client.pl")]

    def checks(self) -> list[str]:
        # It writes no chunk of an empty file, and the first chunk of a file never as the last one.
        short = {f"chunked call-file {size}" for size in (0, 1)}
        return [check for check in super().checks() if check not in short]


REFERENCE_CHECKS = tuple(f"reference-{what}" for what in ("in", "verified", "out", "through", "value", "xml"))
WORKFLOW_CHECKS = tuple(f"workflow-{what}" for what in ("call", "progress", "kill"))
STREAM_CHECKS = ("stream", "stream-cut")
SERVICE_CHECKS = ("call", "missing-job", "array", "array-get")
HTTP_LOGINS = tuple(f"login-{what}" for what in ("basic", "bearer", "refused"))
LOGINS = (*HTTP_LOGINS, "login-text", "login-digest")
ETS_TESTS = {
    "Jobs": "JobCreationAutoExecutionMode JobCreationDefaultExecutionMode JobCreationDefaultOutputs "
            "JobCreationInputArray JobCreationInputInline JobCreationInputInlineBinary "
            "JobCreationInputInlineMixed JobCreationInputInlineObject JobCreationInputs JobCreationOp "
            "JobCreationRequest JobCreationSuccessAsync JobCreationSyncDocument JobCreationSyncRawMixedMulti "
            "JobCreationSyncRawRef JobCreationSyncRawValueMulti JobCreationSyncRawValueOne JobExceptionNoSuchJob "
            "JobOp JobResults JobResultsAsyncDocument JobResultsAsyncRawMixedMulti JobResultsAsyncRawRef "
            "JobResultsAsyncRawValueMulti JobResultsAsyncRawValueOne JobResultsExceptionResultsNotReady "
            "JobResultsFailed JobResultsNoSuchJob JobResultsSync JobSuccess",
    "GeneralHttp": "Http",
    "LandingPage": "LandingPageRetrieval LandingPageValidation",
    "Conformance": "ValidateConformanceOperationAndResponse",
    "Process": "Process ProcessExceptionNoSuchProcess ProcessSuccess",
    "ProcessList": "PlLimitDefinition PlLimitResponse PlLinks ProcessList ProcessListSuccess",
    "OGCProcessDescription": "OGCProcessDescriptionInputDef OGCProcessDescriptionInputsDef OGCProcessDescriptionJSON "
                             "OGCProcessDescriptionOutputDef OGCProcessDescriptionOutputsDef",
    "JobList": "JobList JobListSuccess",
}
ETS_CHECKS = tuple(f"{group}.test{test}" for group, tests in ETS_TESTS.items() for test in tests.split())
DESCRIPTION_CHECKS = (
    *(f"export {kind} {case}" for kind in ("cwl", "boutiques") for case in ("numbers", "file", "text", "several")),
    *(f"import {name}" for name in ("revtool.cwl", "sorttool.cwl", "wc-tool.cwl", "touch.cwl", "sort.json")))
GSOAP = {"wsdl2h": "gsoap", "soapcpp2": "gsoap", "c++": "g++"}

TOOLKITS = [
    Zeep("zeep", {}, {"": LARGE}, extra=(*SERVICE_CHECKS, *REFERENCE_CHECKS, "reference-session", "array-binary", "soap12", "bad-value",
                "key", *STREAM_CHECKS, *LOGINS),
         descriptions=("arithmetic-test", "echo-file", "matrix", "matrix-binary", "echo-file-xdescr",
                       "session", "stream")),
    *(kind(name, {}, {}, extra=("call", "spawn", "missing-job"), descriptions=("arithmetic-test",))
      for name, kind in (("suds", Suds), ("pysimplesoap", PySimpleSoap))),
    Ogc("ogc", {}, {}, extra=("landing", "conformance", "processes", "descriptions", "execute", "document", "raw", "file",
                              "reference", "array", "job", "jobs", "pages", "refusals", "callbacks", "missing-process", "missing-job",
                              "not-ready", "failed", "dismiss", "owslib", "owslib-job", "openapi-30", "openapi-31", "fuzz")),
    OgcEts("ogc-ets", JAVA, {}, extra=ETS_CHECKS, descriptions=(), is_default=False),
    Descriptions("descriptions", {}, {}, extra=DESCRIPTION_CHECKS,
                 descriptions=("arithmetic-test", "echo-file", "say", "gallery")),
    Examples("examples", {"java": "default-jdk-headless", "curl": "curl"}, {},
             extra=tuple(f"{case} {language}" for case in ("numbers", "file", "array", "text", "unticked", "url", "array-file", "several", "login")
                         for language in ("cli", "python", "curl", "soap", "zeep", "java")),
             descriptions=("arithmetic-test", "echo-file", "matrix", "say", "words")),
    Browser("browser", {"node": "nodejs", "npm": "npm", "chromium": "chromium"}, {},
            extra=("run", "results", "meshes", "download", "mistakes", "again", "live", "paused", "restart", "remove", "jobs", "account", "login", "examples",
                   "directory", "dropped", "address", "files", "arrays", "several", "upload", "axe", "phone", "keyboard", "scriptless", *PIPE_CHECKS),
            descriptions=("gallery", "countdown", "folders", "echo-file"), optional=PIPE_CHECKS),
    Mcp("mcp", {}, {}, extra=(*(f"{transport} {mode} {check}" for transport in ("http", "stdio") for mode in ("auto", "legacy")
                                for check in ("tools", "call", "wrong", "unknown", "file", "path", "large", "long",
                                              "cancelled")), "http task", "stdio task", "tasks", "foreign_origin", "other_method")),
    McpConformance("mcp-conformance", {"npm": "npm"}, {}, descriptions=(), extra=(
        "server-initialize", "ping", "tools-list", "resources-list", "dns-rebinding-protection", "expected-failures",
        *(f"tools-call-{what}" for what in ("simple-text", "image", "audio", "error", "with-progress")))),
    Node("node", {"node": "nodejs", "npm": "npm"}, {"": LARGE},
         extra=(*SERVICE_CHECKS, "soap12", "bad-value", *LOGINS)),
    Php("php", {"php": "php-cli"}, {"": LARGE},
        extra=(*SERVICE_CHECKS, "array-special", "soap12", "bad-value", *LOGINS)),
    Gsoap("gsoap", GSOAP, {"base64 ": LARGE, "mtom ": LARGE, "dime ": LARGE},
          extra=(*SERVICE_CHECKS, "array-special", "soap11", *HTTP_LOGINS,
                 *(f"{mode} {check}" for mode in ("base64", "mtom", "dime") for check in STREAM_CHECKS)),
          descriptions=("arithmetic-test", "echo-file", "matrix", "stream")),
    GsoapWsse("gsoap-wsse", GSOAP, {},
              extra=("login-text", "login-digest", "login-text-refused", "login-digest-refused"),
              descriptions=("arithmetic-test",)),
    GsoapServer("gsoap-server", GSOAP, {"base64 ": LARGE, "mtom ": LARGE, "dime ": LARGE},
                verbs=("call",), descriptions=(), extra=("other-packaging",)),
    Cxf("cxf", JAVA, {"mtom ": LARGE, "base64 ": LARGE, "swa ": LARGE},
        extra=(*SERVICE_CHECKS, *REFERENCE_CHECKS, "reference-mtom", "array-special", "soap12", *LOGINS, *WORKFLOW_CHECKS,
               *(f"{mode} {check}" for mode in ("base64", "mtom", "swa") for check in STREAM_CHECKS)),
        descriptions=("arithmetic-test", "echo-file", "matrix", "echo-file-swa", "echo-file-xdescr", "stream",
                      "stream-swa", "settle", "smooth")),
    Axis("axis", JAVA, {"swa ": LARGE, "swaref ": LARGE, "dime ": LARGE}, extra=("missing-job",),
         descriptions=("echo-file-swa", "echo-file-dime")),
    Curl("curl", {"curl": "curl"}, {}, extra=(*HTTP_LOGINS, "login-netrc"), descriptions=()),
    DimeTools("dime-tools", {}, {"whole ": LARGE, "chunked ": LARGE}, verbs=("call",),
              descriptions=("echo-file",)),
]
