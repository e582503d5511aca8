//! The values of `mpi.h`, by its names.

#![expect(dead_code, reason = "the classes of errors that we don't have are there for their names")]

use std::ffi::c_int;

/// Error classes, and their names.
macro_rules! errors {
    ($($name:ident = $value:literal,)+) => {
        $(pub(crate) const $name: c_int = $value;)+
        pub(crate) const CLASS_NAMES: &[(c_int, &str)] = &[$(($value, stringify!($name)),)+];
    };
}

errors! {
    MPI_SUCCESS = 0,
    MPI_ERR_BUFFER = 1,
    MPI_ERR_COUNT = 2,
    MPI_ERR_TYPE = 3,
    MPI_ERR_TAG = 4,
    MPI_ERR_COMM = 5,
    MPI_ERR_RANK = 6,
    MPI_ERR_REQUEST = 7,
    MPI_ERR_ROOT = 8,
    MPI_ERR_GROUP = 9,
    MPI_ERR_OP = 10,
    MPI_ERR_TOPOLOGY = 11,
    MPI_ERR_DIMS = 12,
    MPI_ERR_ARG = 13,
    MPI_ERR_UNKNOWN = 14,
    MPI_ERR_TRUNCATE = 15,
    MPI_ERR_OTHER = 16,
    MPI_ERR_INTERN = 17,
    MPI_ERR_PENDING = 18,
    MPI_ERR_IN_STATUS = 19,
    MPI_ERR_ACCESS = 20,
    MPI_ERR_AMODE = 21,
    MPI_ERR_ASSERT = 22,
    MPI_ERR_BAD_FILE = 23,
    MPI_ERR_BASE = 24,
    MPI_ERR_CONVERSION = 25,
    MPI_ERR_DISP = 26,
    MPI_ERR_DUP_DATAREP = 27,
    MPI_ERR_FILE_EXISTS = 28,
    MPI_ERR_FILE_IN_USE = 29,
    MPI_ERR_FILE = 30,
    MPI_ERR_INFO_KEY = 31,
    MPI_ERR_INFO_NOKEY = 32,
    MPI_ERR_INFO_VALUE = 33,
    MPI_ERR_INFO = 34,
    MPI_ERR_IO = 35,
    MPI_ERR_KEYVAL = 36,
    MPI_ERR_LOCKTYPE = 37,
    MPI_ERR_NAME = 38,
    MPI_ERR_NO_MEM = 39,
    MPI_ERR_NOT_SAME = 40,
    MPI_ERR_NO_SPACE = 41,
    MPI_ERR_NO_SUCH_FILE = 42,
    MPI_ERR_PORT = 43,
    MPI_ERR_QUOTA = 44,
    MPI_ERR_READ_ONLY = 45,
    MPI_ERR_RMA_ATTACH = 46,
    MPI_ERR_RMA_CONFLICT = 47,
    MPI_ERR_RMA_RANGE = 48,
    MPI_ERR_RMA_SHARED = 49,
    MPI_ERR_RMA_SYNC = 50,
    MPI_ERR_SERVICE = 51,
    MPI_ERR_SIZE = 52,
    MPI_ERR_SPAWN = 53,
    MPI_ERR_UNSUPPORTED_DATAREP = 54,
    MPI_ERR_UNSUPPORTED_OPERATION = 55,
    MPI_ERR_WIN = 56,
    MPI_ERR_RMA_FLAVOR = 57,
    MPI_ERR_PROC_ABORTED = 58,
    MPI_ERR_VALUE_TOO_LARGE = 59,
    MPI_ERR_SESSION = 60,
    MPI_ERR_ERRHANDLER = 61,
    MPI_ERR_ABI = 62,
    MPI_T_ERR_CANNOT_INIT = 1001,
    MPI_T_ERR_NOT_ACCESSIBLE = 1002,
    MPI_T_ERR_NOT_INITIALIZED = 1003,
    MPI_T_ERR_NOT_SUPPORTED = 1004,
    MPI_T_ERR_MEMORY = 1005,
    MPI_T_ERR_INVALID = 1006,
    MPI_T_ERR_INVALID_INDEX = 1007,
    MPI_T_ERR_INVALID_ITEM = 1008,
    MPI_T_ERR_INVALID_SESSION = 1009,
    MPI_T_ERR_INVALID_HANDLE = 1010,
    MPI_T_ERR_INVALID_NAME = 1011,
    MPI_T_ERR_OUT_OF_HANDLES = 1012,
    MPI_T_ERR_OUT_OF_SESSIONS = 1013,
    MPI_T_ERR_CVAR_SET_NOT_NOW = 1014,
    MPI_T_ERR_CVAR_SET_NEVER = 1015,
    MPI_T_ERR_PVAR_NO_WRITE = 1016,
    MPI_T_ERR_PVAR_NO_STARTSTOP = 1017,
    MPI_T_ERR_PVAR_NO_ATOMIC = 1018,
    MPI_ERR_LASTCODE = 16383,
}
pub(crate) const MPI_ANY_SOURCE: c_int = -1;
pub(crate) const MPI_ANY_TAG: c_int = -2;
pub(crate) const MPI_PROC_NULL: c_int = -3;
pub(crate) const MPI_ROOT: c_int = -4;
pub(crate) const MPI_UNDEFINED: c_int = -32766;
pub(crate) const MPI_THREAD_SINGLE: c_int = 0;
pub(crate) const MPI_THREAD_FUNNELED: c_int = 1024;
pub(crate) const MPI_THREAD_SERIALIZED: c_int = 2048;
pub(crate) const MPI_THREAD_MULTIPLE: c_int = 4096;
pub(crate) const MPI_ORDER_C: c_int = 0xC;
pub(crate) const MPI_ORDER_FORTRAN: c_int = 0xF;
pub(crate) const MPI_DISTRIBUTE_NONE: c_int = 16;
pub(crate) const MPI_DISTRIBUTE_BLOCK: c_int = 17;
pub(crate) const MPI_DISTRIBUTE_CYCLIC: c_int = 18;
pub(crate) const MPI_DISTRIBUTE_DFLT_DARG: c_int = 19;
pub(crate) const MPI_TYPECLASS_INTEGER: c_int = 192;
pub(crate) const MPI_TYPECLASS_REAL: c_int = 193;
pub(crate) const MPI_TYPECLASS_COMPLEX: c_int = 194;
pub(crate) const MPI_IDENT: c_int = 201;
pub(crate) const MPI_CONGRUENT: c_int = 202;
pub(crate) const MPI_SIMILAR: c_int = 203;
pub(crate) const MPI_UNEQUAL: c_int = 204;
pub(crate) const MPI_CART: c_int = 211;
pub(crate) const MPI_GRAPH: c_int = 212;
pub(crate) const MPI_DIST_GRAPH: c_int = 213;
pub(crate) const MPI_COMM_TYPE_SHARED: c_int = 221;
pub(crate) const MPI_COMM_TYPE_HW_UNGUIDED: c_int = 222;
pub(crate) const MPI_COMM_TYPE_HW_GUIDED: c_int = 223;
pub(crate) const MPI_COMM_TYPE_RESOURCE_GUIDED: c_int = 224;
pub(crate) const MPI_KEYVAL_INVALID: c_int = 0;
pub(crate) const MPI_TAG_UB: c_int = 501;
pub(crate) const MPI_IO: c_int = 502;
pub(crate) const MPI_HOST: c_int = 503;
pub(crate) const MPI_WTIME_IS_GLOBAL: c_int = 504;
pub(crate) const MPI_APPNUM: c_int = 505;
pub(crate) const MPI_LASTUSEDCODE: c_int = 506;
pub(crate) const MPI_UNIVERSE_SIZE: c_int = 507;
pub(crate) const MPI_COMBINER_NAMED: c_int = 101;
pub(crate) const MPI_COMBINER_DUP: c_int = 102;
pub(crate) const MPI_COMBINER_CONTIGUOUS: c_int = 103;
pub(crate) const MPI_COMBINER_VECTOR: c_int = 104;
pub(crate) const MPI_COMBINER_HVECTOR: c_int = 105;
pub(crate) const MPI_COMBINER_INDEXED: c_int = 106;
pub(crate) const MPI_COMBINER_HINDEXED: c_int = 107;
pub(crate) const MPI_COMBINER_INDEXED_BLOCK: c_int = 108;
pub(crate) const MPI_COMBINER_HINDEXED_BLOCK: c_int = 109;
pub(crate) const MPI_COMBINER_STRUCT: c_int = 110;
pub(crate) const MPI_COMBINER_SUBARRAY: c_int = 111;
pub(crate) const MPI_COMBINER_DARRAY: c_int = 112;
pub(crate) const MPI_COMBINER_F90_REAL: c_int = 113;
pub(crate) const MPI_COMBINER_F90_COMPLEX: c_int = 114;
pub(crate) const MPI_COMBINER_F90_INTEGER: c_int = 115;
pub(crate) const MPI_COMBINER_RESIZED: c_int = 116;
pub(crate) const MPI_COMBINER_VALUE_INDEX: c_int = 117;
pub(crate) const MPI_MAX_DATAREP_STRING: usize = 128;
pub(crate) const MPI_MAX_ERROR_STRING: usize = 512;
pub(crate) const MPI_MAX_INFO_KEY: usize = 256;
pub(crate) const MPI_MAX_INFO_VAL: usize = 1024;
pub(crate) const MPI_MAX_LIBRARY_VERSION_STRING: usize = 8192;
pub(crate) const MPI_MAX_OBJECT_NAME: usize = 128;
pub(crate) const MPI_MAX_PORT_NAME: usize = 1024;
pub(crate) const MPI_MAX_PROCESSOR_NAME: usize = 256;
pub(crate) const MPI_MAX_STRINGTAG_LEN: usize = 1024;
pub(crate) const MPI_MAX_PSET_NAME_LEN: usize = 1024;
pub(crate) const MPI_BSEND_OVERHEAD: usize = 512;

/// `MPI_IN_PLACE`, an address.
pub(crate) const IN_PLACE: usize = 1;
/// `MPI_BUFFER_AUTOMATIC`, an address.
pub(crate) const BUFFER_AUTOMATIC: usize = 2;
/// `MPI_UNWEIGHTED`, an address.
pub(crate) const UNWEIGHTED: usize = 10;
/// `MPI_WEIGHTS_EMPTY`, an address.
pub(crate) const WEIGHTS_EMPTY: usize = 11;
