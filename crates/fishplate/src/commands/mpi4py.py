import importlib.metadata, importlib.util, json, os, sys, sysconfig

version, abi = None, False
try:
    package = importlib.metadata.distribution("mpi4py")
    version = package.version
    for file in package.files or []:
        if file.name.startswith("MPI.") and file.suffix == ".so":
            abi = abi or b"libmpi_abi" in package.locate_file(file).read_bytes()
except importlib.metadata.PackageNotFoundError:
    pass
pip = importlib.util.find_spec("pip") is not None
headers = os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))
print(json.dumps({"prefix": sys.prefix, "version": version, "abi": abi, "pip": pip, "headers": headers}))
