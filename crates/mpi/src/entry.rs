//! How a function of the standard is written: once, as safe code that gives a [`Result`](crate::error::Result).
//!
//! `entries!` makes of it `MPI_X` and `PMPI_X`; written with a type `C` for counts, also the forms for large counts,
//! `MPI_X_c` and `PMPI_X_c`. `operations!` takes a function that gives what is to be begun, and makes of it the blocking, the
//! non-blocking and the persistent call. What goes wrong is raised with the handle after `on`.

/// Functions of the standard.
macro_rules! entries {
    () => {};
    (fn $name:ident($($arg:ident: $type:ty),* $(,)?) on $on:expr => $body:block $($rest:tt)*) => {
        const _: () = {
            fn run($($arg: $type),*) -> $crate::error::Result<()> $body
            $crate::entry::symbols!([stringify!($name)] ($($arg: $type),*) on $on => run($($arg),*));
        };
        $crate::entry::entries!($($rest)*);
    };
    (fn $name:ident<C>($($arg:ident: $type:ty),* $(,)?) on $on:expr => $body:block $($rest:tt)*) => {
        const _: () = {
            fn run<C: $crate::arguments::Integer>($($arg: $type),*) -> $crate::error::Result<()> $body
            const _: () = {
                type C = std::ffi::c_int;
                $crate::entry::symbols!([stringify!($name)] ($($arg: $type),*) on $on => run::<C>($($arg),*));
            };
            const _: () = {
                type C = i64;
                $crate::entry::symbols!([stringify!($name), "_c"] ($($arg: $type),*) on $on => run::<C>($($arg),*));
            };
        };
        $crate::entry::entries!($($rest)*);
    };
}

/// Functions that return a value and can't fail.
macro_rules! values {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty $body:block)*) => { $(
        const _: () = {
            fn run($($arg: $type),*) -> $result $body
            #[unsafe(export_name = concat!("MPI_", stringify!($name)))]
            extern "C" fn entry($($arg: $type),*) -> $result {
                run($($arg),*)
            }
            #[unsafe(export_name = concat!("PMPI_", stringify!($name)))]
            extern "C" fn profiled($($arg: $type),*) -> $result {
                run($($arg),*)
            }
        };
    )* };
}

/// The two symbols of a function.
macro_rules! symbols {
    ([$($name:expr),+] ($($arg:ident: $type:ty),* $(,)?) on $on:expr => $call:expr) => {
        const _: () = {
            #[unsafe(export_name = concat!("MPI_", $($name),+))]
            extern "C" fn entry($($arg: $type),*) -> std::ffi::c_int {
                $crate::error_handler::finish(concat!("MPI_", $($name),+), $on, $call)
            }
            #[unsafe(export_name = concat!("PMPI_", $($name),+))]
            extern "C" fn profiled($($arg: $type),*) -> std::ffi::c_int {
                entry($($arg),*)
            }
        };
    };
}

/// Operations on a communicator, by three names: blocking, non-blocking, persistent. The function gives a closure that
/// begins the operation, as often as it is called. Those with `[info]` are collective: their persistent calls take an info object besides.
macro_rules! operations {
    () => {};
    (
        fn $name:literal, $nonblocking:literal, $persistent:literal $info:tt
        ($($arg:ident: $type:ty),*; $comm:ident) => $body:block $($rest:tt)*
    ) => {
        const _: () = {
            fn plan($($arg: $type,)* $comm: $crate::handle::Comm) -> $crate::error::Result<impl $crate::request::Plan> $body
            $crate::entry::operations!(@three [$name] [$nonblocking] [$persistent] $info ($($arg: $type),*; $comm));
        };
        $crate::entry::operations!($($rest)*);
    };
    (
        fn $name:literal, $nonblocking:literal, $persistent:literal $info:tt
        <C>($($arg:ident: $type:ty),*; $comm:ident) => $body:block $($rest:tt)*
    ) => {
        const _: () = {
            fn plan<C: $crate::arguments::Integer>(
                $($arg: $type,)* $comm: $crate::handle::Comm
            ) -> $crate::error::Result<impl $crate::request::Plan> $body
            const _: () = {
                type C = std::ffi::c_int;
                $crate::entry::operations!(@three [$name] [$nonblocking] [$persistent] $info ($($arg: $type),*; $comm));
            };
            const _: () = {
                type C = i64;
                $crate::entry::operations!(
                    @three [$name, "_c"] [$nonblocking, "_c"] [$persistent, "_c"] $info ($($arg: $type),*; $comm)
                );
            };
        };
        $crate::entry::operations!($($rest)*);
    };
    (@prepare) => { $crate::request::prepare };
    (@prepare info) => { $crate::request::prepare_collective };
    (
        @three [$($name:literal),+] [$($nonblocking:literal),+] [$($persistent:literal),+]
        [$($info:ident)?] ($($arg:ident: $type:ty),*; $comm:ident)
    ) => {
        $crate::entry::symbols!([$($name),+] ($($arg: $type,)* $comm: $crate::handle::Comm) on $comm => {
            plan($($arg,)* $comm).and_then($crate::request::run)
        });
        $crate::entry::symbols!(
            [$($nonblocking),+]
            ($($arg: $type,)* $comm: $crate::handle::Comm, request: $crate::arguments::Out<$crate::handle::Request>) on $comm => {
                plan($($arg,)* $comm).and_then(|plan| $crate::request::start($comm, plan, request))
            }
        );
        $crate::entry::symbols!(
            [$($persistent),+]
            (
                $($arg: $type,)* $comm: $crate::handle::Comm, $($info: $crate::handle::Info,)?
                request: $crate::arguments::Out<$crate::handle::Request>
            ) on $comm => {
                $(let _ = $info;)?
                let prepare = $crate::entry::operations!(@prepare $($info)?);
                plan($($arg,)* $comm).and_then(|plan| prepare($comm, plan, request))
            }
        );
    };
}

pub(crate) use {entries, operations, symbols, values};
