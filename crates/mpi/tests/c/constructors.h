static void OWN(constructors)(void) {
    MPI_Datatype type;
    COUNT lengths[2] = {2, 1}, at[2] = {3, -1};
    MPI_Aint bytes[2] = {12, -6};
    FORM(Type_contiguous)(3, MPI_INT, &type);
    CHECK(LIES(type, 0, 4, 8) && has_bounds(type, 0, 12, 0, 12));
    CHECK(MADE(type, MPI_COMBINER_CONTIGUOUS, TYPES(MPI_INT), 3));
    FORM(Type_vector)(2, 2, -3, MPI_INT, &type);
    CHECK(LIES(type, 0, 4, -12, -8) && has_bounds(type, -12, 20, -12, 20));
    CHECK(MADE(type, MPI_COMBINER_VECTOR, TYPES(MPI_INT), 2, 2, -3));
    FORM(Type_create_hvector)(3, 1, 10, MPI_INT, &type);
    CHECK(LIES(type, 0, 10, 20) && has_bounds(type, 0, 24, 0, 24));
    CHECK(MADE(type, MPI_COMBINER_HVECTOR, TYPES(MPI_INT), 3, 1, 10));
    FORM(Type_indexed)(2, lengths, at, MPI_INT, &type);
    CHECK(LIES(type, 12, 16, -4) && has_bounds(type, -4, 24, -4, 24));
    CHECK(MADE(type, MPI_COMBINER_INDEXED, TYPES(MPI_INT), 2, 2, 1, 3, -1));
    FORM(Type_create_hindexed)(2, lengths, bytes, MPI_INT, &type);
    CHECK(LIES(type, 12, 16, -6) && has_bounds(type, -6, 26, -6, 26));
    CHECK(MADE(type, MPI_COMBINER_HINDEXED, TYPES(MPI_INT), 2, 2, 1, 12, -6));
    FORM(Type_create_indexed_block)(2, 2, at, MPI_INT, &type);
    CHECK(LIES(type, 12, 16, -4, 0) && has_bounds(type, -4, 24, -4, 24));
    CHECK(MADE(type, MPI_COMBINER_INDEXED_BLOCK, TYPES(MPI_INT), 2, 2, 3, -1));
    FORM(Type_create_hindexed_block)(2, 1, bytes, MPI_INT, &type);
    CHECK(LIES(type, 12, -6) && has_bounds(type, -6, 22, -6, 22));
    CHECK(MADE(type, MPI_COMBINER_HINDEXED_BLOCK, TYPES(MPI_INT), 2, 1, 12, -6));
    FORM(Type_create_indexed_block)(0, 2, at, MPI_INT, &type);
    CHECK(has_bounds(type, 0, 0, 0, 0) && MADE(type, MPI_COMBINER_INDEXED_BLOCK, TYPES(MPI_INT), 0, 2));
    FORM(Type_create_resized)(MPI_INT, -8, 40, &type);
    CHECK(LIES(type, 0) && has_bounds(type, -8, 40, 0, 4));
    CHECK(MADE(type, MPI_COMBINER_RESIZED, TYPES(MPI_INT), -8, 40));
    /* The extent is rounded up to what a double needs: what follows in an array begins there. */
    MPI_Datatype types[2] = {MPI_DOUBLE, MPI_INT};
    COUNT ones[2] = {1, 1};
    MPI_Aint fields[2] = {0, 8};
    FORM(Type_create_struct)(2, ones, fields, types, &type);
    CHECK(LIES(type, 0, 4, 8) && has_bounds(type, 0, sizeof(struct item), 0, 12));
    CHECK(MADE(type, MPI_COMBINER_STRUCT, TYPES(MPI_DOUBLE, MPI_INT), 2, 1, 1, 0, 8));
    /* Nested: gaps within gaps, and bounds that were set count alone. */
    MPI_Datatype wide, outer;
    FORM(Type_create_resized)(MPI_INT, 0, 12, &wide);
    FORM(Type_vector)(2, 2, 3, wide, &outer);
    CHECK(LIES(outer, 0, 12, 36, 48) && has_bounds(outer, 0, 60, 0, 52));
    MPI_Type_free(&wide);
    CHECK(LIES(outer, 0, 12, 36, 48));
    MPI_Type_free(&outer);
}

static void OWN(arrays)(void) {
    MPI_Datatype type;
    COUNT sizes[2] = {3, 4}, parts[2] = {2, 2}, starts[2] = {1, 2};
    FORM(Type_create_subarray)(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type);
    CHECK(LIES(type, 24, 28, 40, 44) && has_bounds(type, 0, 48, 24, 24));
    CHECK(LARGE ? MADE(type, MPI_COMBINER_SUBARRAY, TYPES(MPI_INT), 2, MPI_ORDER_C, 3, 4, 2, 2, 1, 2)
                : MADE(type, MPI_COMBINER_SUBARRAY, TYPES(MPI_INT), 2, 3, 4, 2, 2, 1, 2, MPI_ORDER_C));
    FORM(Type_create_subarray)(2, sizes, parts, starts, MPI_ORDER_FORTRAN, MPI_INT, &type);
    CHECK(LIES(type, 28, 32, 40, 44) && has_bounds(type, 0, 48, 28, 20));
    MPI_Type_free(&type);
    /* Rows cyclically over two processes, columns in blocks over two: the last process has row 1, columns 2 and 3. */
    int how[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK}, arguments[2] = {1, MPI_DISTRIBUTE_DFLT_DARG}, grid[2] = {2, 2};
    FORM(Type_create_darray)(4, 3, 2, sizes, how, arguments, grid, MPI_ORDER_C, MPI_INT, &type);
    CHECK(LIES(type, 24, 28) && has_bounds(type, 0, 48, 24, 8));
    CHECK(LARGE ? MADE(type, MPI_COMBINER_DARRAY, TYPES(MPI_INT), 4, 3, 2, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK, 1,
                       MPI_DISTRIBUTE_DFLT_DARG, 2, 2, MPI_ORDER_C, 3, 4)
                : MADE(type, MPI_COMBINER_DARRAY, TYPES(MPI_INT), 4, 3, 2, 3, 4, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK, 1,
                       MPI_DISTRIBUTE_DFLT_DARG, 2, 2, MPI_ORDER_C));
    CHECK(class_of(FORM(Type_create_darray)(4, 4, 2, sizes, how, arguments, grid, MPI_ORDER_C, MPI_INT, &type)) == MPI_ERR_ARG);
    CHECK(class_of(FORM(Type_create_darray)(5, 3, 2, sizes, how, arguments, grid, MPI_ORDER_C, MPI_INT, &type)) == MPI_ERR_ARG);
    CHECK(class_of(FORM(Type_create_darray)(4, 3, 2, sizes, how, arguments, grid, 0, MPI_INT, &type)) == MPI_ERR_ARG);
    grid[0] = 0, grid[1] = 4;
    CHECK(class_of(FORM(Type_create_darray)(0, 0, 2, sizes, how, arguments, grid, MPI_ORDER_C, MPI_INT, &type)) == MPI_ERR_ARG);
    arguments[0] = 0, grid[0] = grid[1] = 2;
    CHECK(class_of(FORM(Type_create_darray)(4, 3, 2, sizes, how, arguments, grid, MPI_ORDER_C, MPI_INT, &type)) == MPI_ERR_ARG);
    starts[1] = 3;
    CHECK(class_of(FORM(Type_create_subarray)(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type)) == MPI_ERR_ARG);
    parts[1] = 0;
    CHECK(class_of(FORM(Type_create_subarray)(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type)) == MPI_ERR_ARG);
    CHECK(class_of(FORM(Type_create_subarray)(0, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type)) == MPI_ERR_ARG);
}

static void OWN(wrong)(void) {
    MPI_Datatype type, none[1] = {MPI_DATATYPE_NULL};
    COUNT one[1] = {1}, negative[1] = {-1};
    MPI_Aint zero[1] = {0};
    CHECK(class_of(FORM(Type_contiguous)(-1, MPI_INT, &type)) == MPI_ERR_COUNT);
    CHECK(class_of(FORM(Type_contiguous)(1, MPI_DATATYPE_NULL, &type)) == MPI_ERR_TYPE);
    CHECK(class_of(FORM(Type_vector)(-1, 1, 1, MPI_INT, &type)) == MPI_ERR_COUNT);
    CHECK(class_of(FORM(Type_vector)(1, 1, 1, MPI_DATATYPE_NULL, &type)) == MPI_ERR_TYPE);
    CHECK(class_of(FORM(Type_create_hvector)(1, -1, 1, MPI_INT, &type)) == MPI_ERR_COUNT);
    CHECK(class_of(FORM(Type_indexed)(1, negative, one, MPI_INT, &type)) == MPI_ERR_COUNT);
    CHECK(class_of(FORM(Type_create_hindexed)(-1, one, zero, MPI_INT, &type)) == MPI_ERR_COUNT);
    CHECK(class_of(FORM(Type_create_indexed_block)(1, -1, one, MPI_INT, &type)) == MPI_ERR_COUNT);
    CHECK(class_of(FORM(Type_create_hindexed_block)(1, 1, zero, MPI_DATATYPE_NULL, &type)) == MPI_ERR_TYPE);
    CHECK(class_of(FORM(Type_create_struct)(1, one, zero, none, &type)) == MPI_ERR_TYPE);
    CHECK(class_of(FORM(Type_create_struct)(1, negative, zero, none, &type)) == MPI_ERR_COUNT);
    CHECK(class_of(FORM(Type_create_resized)(MPI_DATATYPE_NULL, 0, 1, &type)) == MPI_ERR_TYPE);
}

/* Sizes that an int can't tell. */
static void OWN(sizes)(void) {
    MPI_Datatype long_one, longer;
    COUNT bytes;
    MPI_Count wide;
    FORM(Type_contiguous)(1 << 20, MPI_INT, &long_one);
    FORM(Type_size)(long_one, &bytes);
    CHECK(bytes == 1 << 22);
    FORM(Type_contiguous)(1 << 20, long_one, &longer);
    FORM(Type_size)(longer, &bytes);
    CHECK(bytes == (LARGE ? (COUNT)(1LL << 42) : MPI_UNDEFINED));
    MPI_Type_size_x(longer, &wide);
    CHECK(wide == 1LL << 42 && has_bounds(longer, 0, 1LL << 42, 0, 1LL << 42));
    MPI_Type_free(&long_one);
    MPI_Type_free(&longer);
    CHECK(class_of(FORM(Type_size)(MPI_DATATYPE_NULL, &bytes)) == MPI_ERR_TYPE);
}

/* Packed as it is in memory, and as external32. */
static void OWN(packing)(void) {
    struct mixed one = {-2, -70000, 1.5, 'x', 65535}, back;
    MPI_Aint at[5] = {offsetof(struct mixed, a), offsetof(struct mixed, b), offsetof(struct mixed, c),
                      offsetof(struct mixed, d), offsetof(struct mixed, e)};
    MPI_Datatype types[5] = {MPI_SHORT, MPI_LONG, MPI_DOUBLE, MPI_CHAR, MPI_UNSIGNED_SHORT}, type;
    COUNT lengths[5] = {1, 1, 1, 1, 1}, size, position = 0;
    MPI_Aint external, place = 0;
    unsigned char memory[64];
    const unsigned char wanted[] = {0xff, 0xfe, 0xff, 0xfe, 0xee, 0x90, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0, 'x', 0xff, 0xff};
    FORM(Type_create_struct)(5, lengths, at, types, &type);
    MPI_Type_commit(&type);
    FORM(Pack_size)(2, type, MPI_COMM_SELF, &size);
    CHECK(size >= 2 * 21);
    FORM(Pack)(&one, 1, type, memory, sizeof memory, &position, MPI_COMM_SELF);
    FORM(Pack)(&one.c, 1, MPI_DOUBLE, memory, sizeof memory, &position, MPI_COMM_SELF);
    CHECK(position == 29);
    double last = 0;
    memset(&back, 0, sizeof back);
    position = 0;
    FORM(Unpack)(memory, sizeof memory, &position, &back, 1, type, MPI_COMM_SELF);
    FORM(Unpack)(memory, sizeof memory, &position, &last, 1, MPI_DOUBLE, MPI_COMM_SELF);
    CHECK(position == 29 && last == 1.5 && is_same(&one, &back));
    position = 60;
    CHECK(FORM(Pack)(&one, 1, type, memory, sizeof memory, &position, MPI_COMM_SELF) != MPI_SUCCESS && position == 60);
    CHECK(FORM(Unpack)(memory, sizeof memory, &position, &back, 1, type, MPI_COMM_SELF) != MPI_SUCCESS && position == 60);
    FORM(Pack_external_size)("external32", 3, type, &external);
    CHECK(external == 3 * sizeof wanted);
    FORM(Pack_external)("external32", &one, 1, type, memory, sizeof memory, &place);
    CHECK(place == sizeof wanted && !memcmp(memory, wanted, sizeof wanted));
    memset(&back, 0, sizeof back);
    place = 0;
    FORM(Unpack_external)("external32", memory, sizeof memory, &place, &back, 1, type);
    CHECK(place == sizeof wanted && is_same(&one, &back));
    CHECK(class_of(FORM(Pack_external_size)("internal", 1, type, &external)) == MPI_ERR_ARG);
    CHECK(class_of(FORM(Pack_external)("internal", &one, 1, type, memory, sizeof memory, &place)) == MPI_ERR_ARG);
    CHECK(class_of(FORM(Unpack_external)("internal", memory, sizeof memory, &place, &back, 1, type)) == MPI_ERR_ARG);
    CHECK(class_of(FORM(Pack_size)(-1, type, MPI_COMM_SELF, &size)) == MPI_ERR_COUNT);
    CHECK(class_of(FORM(Pack_size)(1, MPI_DATATYPE_NULL, MPI_COMM_SELF, &size)) == MPI_ERR_TYPE);
    CHECK(class_of(FORM(Pack_size)(1, type, MPI_COMM_NULL, &size)) == MPI_ERR_COMM);
    MPI_Type_free(&type);
}
