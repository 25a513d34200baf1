/* --- the CUDA driver, found when it is first needed: no header and no library of CUDA is needed to build this ------- */

typedef struct {
    uint32_t grid[3], block[3], shared_bytes;
    void *stream;
    void *attributes;
    uint32_t attribute_count;
} moye_config;                              /* CUlaunchConfig */

typedef struct {
    uint32_t id;
    uint32_t padding;
    union {
        uint32_t extents[3];
        int number;
        uint64_t whole[8];
    } value;
} moye_attribute;                           /* CUlaunchAttribute */

typedef struct {
    uint64_t opaque[16];
} moye_tensor_map;                          /* CUtensorMap, which has to lie at a multiple of 64 bytes */

/* X(result of dlsym, name, parameters) */
#define MOYE_DRIVER(X)                                                                                                 \
    X(cuInit, (unsigned))                                                                                              \
    X(cuCtxGetCurrent, (void **))                                                                                      \
    X(cuCtxGetId, (void *, unsigned long long *))                                                                      \
    X(cuCtxGetDevice, (int *))                                                                                         \
    X(cuDeviceGetAttribute, (int *, int, int))                                                                         \
    X(cuLibraryLoadData, (void **, const void *, void *, void *, unsigned, void *, void *, unsigned))                  \
    X(cuLibraryGetKernel, (void **, void *, const char *))                                                             \
    X(cuKernelGetFunction, (void **, void *))                                                                          \
    X(cuFuncGetAttribute, (int *, int, void *))                                                                        \
    X(cuFuncSetAttribute, (void *, int, int))                                                                          \
    X(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *, void *, int, size_t))                                       \
    X(cuLaunchKernelEx, (const moye_config *, void *, void **, void **))                                               \
    X(cuGetErrorString, (int, const char **))

#define MOYE_LOCAL static __attribute__((unused))

#define MOYE_MEMBER(name, parameters) int (*name) parameters;
static struct {
    MOYE_DRIVER(MOYE_MEMBER)
    int (*cuTensorMapEncodeTiled)(moye_tensor_map *, int, uint32_t, void *, const uint64_t *, const uint64_t *,
                                  const uint32_t *, const uint32_t *, int, int, int, int);
    int (*cuTensorMapEncodeIm2col)(moye_tensor_map *, int, uint32_t, void *, const uint64_t *, const uint64_t *,
                                   const int *, const int *, uint32_t, uint32_t, const uint32_t *, int, int, int, int);
    int status;                             /* 1: all of it was found */
} moye_cu;

static pthread_mutex_t moye_lock = PTHREAD_MUTEX_INITIALIZER;

/* Codes that every function has.  A failure that the driver reports is minus its CUresult. */
enum {
    MOYE_OK,
    MOYE_NO_DRIVER,
    MOYE_OLD_DRIVER,
    MOYE_NO_CONTEXT,
    MOYE_NO_CODE,
    MOYE_GRID,
    MOYE_CLUSTER,
    MOYE_THREADS,
    MOYE_SHARED,
    MOYE_RESIDENT,
    MOYE_MEMORY,
    MOYE_FORMULA
};

MOYE_LOCAL const char *moye_message(int code)
{
    static const char *const told[] = {
        "no error",
        "the NVIDIA driver library libcuda.so.1 cannot be loaded or initialised",
        "the NVIDIA driver lacks a function that is needed here: CUDA 12.0 or later is needed",
        "no CUDA context is current in this thread: call cudaSetDevice or cuCtxSetCurrent first",
        "no specialisation that fits has code for the device of the current context",
        "the grid lies outside (1, 1, 1) .. (2147483647, 65535, 65535)",
        "the cluster does not divide the grid",
        "the block has more threads than the kernel's registers allow on this device",
        "the kernel needs more shared memory per block than this device has",
        "the blocks of the grid meet (grid_sync), and the device does not hold all of them at once: launch fewer",
        "no host memory is left",
        "the grid cannot be computed: an intermediate result leaves 64 bits or is divided by zero",
    };
    const char *text = NULL;
    if (code >= 0 && code < (int)(sizeof told / sizeof told[0])) {
        return told[code];
    }
    if (code < 0) {
        int there;
        pthread_mutex_lock(&moye_lock);
        there = moye_cu.status == 1;
        pthread_mutex_unlock(&moye_lock);
        if (there && moye_cu.cuGetErrorString(-code, &text) == 0 && text != NULL) {
            return text;
        }
    }
    return code < 0 ? "an error of the CUDA driver: the code is minus its CUresult" : "an unknown code";
}

MOYE_LOCAL void moye_symbol(void *library, const char *name, void *pointer)
{
    void *found = dlsym(library, name);
    memcpy(pointer, &found, sizeof found);  /* ISO C has no conversion from data to functions */
}

/* Call with the lock held. */
MOYE_LOCAL int moye_find_driver(void)
{
    void *library;
    if (moye_cu.status == 1) {
        return MOYE_OK;
    }
    if ((library = dlopen("libcuda.so.1", RTLD_NOW)) == NULL) {
        return MOYE_NO_DRIVER;
    }
#define MOYE_FIND(name, parameters)                                                                                    \
    moye_symbol(library, #name, &moye_cu.name);                                                                        \
    if (moye_cu.name == NULL) {                                                                                        \
        return MOYE_OLD_DRIVER;                                                                                        \
    }
    MOYE_DRIVER(MOYE_FIND)
    moye_symbol(library, "cuTensorMapEncodeTiled", &moye_cu.cuTensorMapEncodeTiled);
    moye_symbol(library, "cuTensorMapEncodeIm2col", &moye_cu.cuTensorMapEncodeIm2col);
    if (moye_cu.cuInit(0) != 0) {
        return MOYE_NO_DRIVER;
    }
    moye_cu.status = 1;
    return MOYE_OK;
}

#define MOYE_CU(call)                                                                                                  \
    do {                                                                                                               \
        int moye_error = moye_cu.call;                                                                                 \
        if (moye_error != 0) {                                                                                         \
            return -moye_error;                                                                                        \
        }                                                                                                              \
    } while (0)

/* --- kernels, loaded once per process, and once more for each context ----------------------------------------------- */

typedef struct {
    int major, minor;
    char kind;                              /* of sm_90a the a: 0 is for the later ones of its generation, too */
    const unsigned char *image;
    void *library;
} moye_code;

typedef struct moye_loaded {
    unsigned long long context;
    void *function;
    int most_threads, most_shared, static_shared, multiprocessors, major;
    struct moye_loaded *next;
} moye_loaded;

typedef struct {
    const char *symbol;
    uint32_t block[3], cluster[3], shared_bytes;
    int cooperative, dependent, code_count;
    moye_code *codes;
    moye_loaded *loaded;
} moye_case;

MOYE_LOCAL moye_code *moye_code_for(moye_case *it, int major, int minor)
{
    moye_code *best = NULL;
    int i;
    for (i = 0; i < it->code_count; i++) {
        moye_code *code = &it->codes[i];
        if (code->major != major || (code->kind == 'a' ? code->minor != minor : code->minor > minor)) {
            continue;
        }
        if (best == NULL || code->minor > best->minor || (code->minor == best->minor && code->kind != 0)) {
            best = code;
        }
    }
    return best;
}

/* Call with the lock held. */
MOYE_LOCAL int moye_load(moye_case *it, moye_loaded **found)
{
    void *context, *kernel;
    unsigned long long id;
    int device, minor, most, error;
    moye_loaded made, *kept;
    moye_code *code;

    if ((error = moye_find_driver()) != MOYE_OK) {
        return error;
    }
    MOYE_CU(cuCtxGetCurrent(&context));
    if (context == NULL) {
        return MOYE_NO_CONTEXT;
    }
    MOYE_CU(cuCtxGetId(context, &id));
    for (kept = it->loaded; kept != NULL; kept = kept->next) {
        if (kept->context == id) {
            *found = kept;
            return MOYE_OK;
        }
    }
    memset(&made, 0, sizeof made);
    made.context = id;
    MOYE_CU(cuCtxGetDevice(&device));
    MOYE_CU(cuDeviceGetAttribute(&made.major, 75, device));         /* COMPUTE_CAPABILITY_MAJOR */
    MOYE_CU(cuDeviceGetAttribute(&minor, 76, device));              /* COMPUTE_CAPABILITY_MINOR */
    MOYE_CU(cuDeviceGetAttribute(&made.multiprocessors, 16, device));
    MOYE_CU(cuDeviceGetAttribute(&most, 97, device));               /* MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
    if ((code = moye_code_for(it, made.major, minor)) == NULL) {
        return MOYE_NO_CODE;
    }
    if (code->library == NULL) {
        MOYE_CU(cuLibraryLoadData(&code->library, code->image, NULL, NULL, 0, NULL, NULL, 0));
    }
    MOYE_CU(cuLibraryGetKernel(&kernel, code->library, it->symbol));
    MOYE_CU(cuKernelGetFunction(&made.function, kernel));
    MOYE_CU(cuFuncGetAttribute(&made.most_threads, 0, made.function));      /* MAX_THREADS_PER_BLOCK */
    MOYE_CU(cuFuncGetAttribute(&made.static_shared, 1, made.function));     /* SHARED_SIZE_BYTES */
    made.most_shared = most - made.static_shared;
    if ((int64_t)it->shared_bytes > made.most_shared) {
        return MOYE_SHARED;
    }
    if ((int64_t)it->shared_bytes + made.static_shared > 49152) {
        MOYE_CU(cuFuncSetAttribute(made.function, 8, (int)it->shared_bytes));       /* MAX_DYNAMIC_SHARED_SIZE_BYTES */
    }
    if (it->cluster[0] * it->cluster[1] * it->cluster[2] > 8) {
        MOYE_CU(cuFuncSetAttribute(made.function, 14, 1));          /* NON_PORTABLE_CLUSTER_SIZE_ALLOWED */
    }
    if ((kept = (moye_loaded *)malloc(sizeof made)) == NULL) {
        return MOYE_MEMORY;
    }
    made.next = it->loaded;
    *kept = made;
    it->loaded = kept;
    *found = kept;
    return MOYE_OK;
}

MOYE_LOCAL int moye_loaded_for(moye_case *it, moye_loaded **found)
{
    int error;
    pthread_mutex_lock(&moye_lock);
    error = moye_load(it, found);
    pthread_mutex_unlock(&moye_lock);
    return error;
}

MOYE_LOCAL int moye_launch(const moye_case *it, const moye_loaded *on, const int64_t *grid, void *stream, void **parameters)
{
    moye_attribute attributes[3];
    moye_config config;
    const int64_t threads = (int64_t)it->block[0] * it->block[1] * it->block[2];
    const int clusters = it->cluster[0] * it->cluster[1] * it->cluster[2] > 1;
    int i;

    if (threads > on->most_threads) {
        return MOYE_THREADS;
    }
    if (it->cooperative) {
        int each;
        MOYE_CU(cuOccupancyMaxActiveBlocksPerMultiprocessor(&each, on->function, (int)threads, it->shared_bytes));
        if ((double)grid[0] * (double)grid[1] * (double)grid[2] > (double)each * on->multiprocessors) {
            return MOYE_RESIDENT;
        }
    }
    memset(attributes, 0, sizeof attributes);
    memset(&config, 0, sizeof config);
    for (i = 0; i < 3; i++) {
        config.grid[i] = (uint32_t)grid[i];
        config.block[i] = it->block[i];
    }
    config.shared_bytes = it->shared_bytes;
    config.stream = stream;
    if (clusters) {
        moye_attribute *one = &attributes[config.attribute_count++];
        one->id = 4;                        /* CLUSTER_DIMENSION */
        memcpy(one->value.extents, it->cluster, sizeof it->cluster);
    }
    if (it->dependent && on->major >= 9) {      /* before, launches do not overlap */
        moye_attribute *one = &attributes[config.attribute_count++];
        one->id = 6;                        /* PROGRAMMATIC_STREAM_SERIALIZATION */
        one->value.number = 1;
    }
    if (it->cooperative) {
        moye_attribute *one = &attributes[config.attribute_count++];
        one->id = 2;                        /* COOPERATIVE */
        one->value.number = 1;
    }
    config.attributes = config.attribute_count ? attributes : NULL;
    MOYE_CU(cuLaunchKernelEx(&config, on->function, parameters, NULL));
    return MOYE_OK;
}

/* 0 if a grid may be launched; a grid without blocks may be, and does nothing. */
MOYE_LOCAL int moye_check_grid(const int64_t *grid)
{
    return grid[0] < 0 || grid[1] < 0 || grid[2] < 0 || grid[0] > 2147483647 || grid[1] > 65535 || grid[2] > 65535
               ? MOYE_GRID
               : MOYE_OK;
}

/* --- arithmetic that tells when it leaves 64 bits: floor semantics, as in the kernel's source ----------------------- */

MOYE_LOCAL int64_t moye_add(int64_t a, int64_t b, int *bad)
{
    if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b) {
        *bad = 1;
        return 0;
    }
    return a + b;
}

MOYE_LOCAL int64_t moye_mul(int64_t a, int64_t b, int *bad)
{
    if (a > 0 ? (b > 0 ? a > INT64_MAX / b : b < INT64_MIN / a)
              : (b > 0 ? a < INT64_MIN / b : a != 0 && b < INT64_MAX / a)) {
        *bad = 1;
        return 0;
    }
    return a * b;
}

MOYE_LOCAL int64_t moye_sub(int64_t a, int64_t b, int *bad)
{
    if (b < 0 ? a > INT64_MAX + b : a < INT64_MIN + b) {
        *bad = 1;
        return 0;
    }
    return a - b;
}

MOYE_LOCAL int64_t moye_floordiv(int64_t a, int64_t b, int *bad)
{
    if (b == 0 || (a == INT64_MIN && b == -1)) {
        *bad = 1;
        return 0;
    }
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

MOYE_LOCAL int64_t moye_mod(int64_t a, int64_t b, int *bad)
{
    int64_t rest;
    if (b == 0 || b == -1) {
        *bad |= b == 0;
        return 0;
    }
    rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

MOYE_LOCAL int64_t moye_shl(int64_t a, int64_t b, int *bad)
{
    if (b < 0 || b > 62) {
        *bad = 1;
        return 0;
    }
    return moye_mul(a, (int64_t)1 << b, bad);
}

MOYE_LOCAL int64_t moye_shr(int64_t a, int64_t b, int *bad)
{
    if (b < 0) {
        *bad = 1;
        return 0;
    }
    return b > 62 ? -(int64_t)(a < 0) : moye_floordiv(a, (int64_t)1 << b, bad);
}

MOYE_LOCAL int64_t moye_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

MOYE_LOCAL int64_t moye_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* --- arrays -------------------------------------------------------------------------------------------------------- */

enum { MOYE_MODES = 8 };

typedef struct {
    uint64_t at;                            /* the address of the element at coordinate 0 */
    int64_t bytes;                          /* of an element */
    int rank, empty;
    int64_t shape[MOYE_MODES], strides[MOYE_MODES];         /* strides in elements */
} moye_array;

/* The strides, with those that no element depends on replaced by what a dense array has there. */
MOYE_LOCAL void moye_natural_strides(moye_array *a)
{
    int64_t natural[MOYE_MODES];
    int mode, other, ones = 0, zeros = 0, any = 0, bad = 0;
    for (mode = 0; mode < a->rank; mode++) {
        ones += a->strides[mode] == 1;
        zeros += a->strides[mode] == 0;
        any |= a->strides[mode] != 0;
    }
    if (!a->empty && !zeros && ones < 2) {
        return;
    }
    if (a->empty && !any) {
        int64_t dense = 1;
        for (mode = 0; mode < a->rank; mode++) {
            a->strides[mode] = dense;
            dense = moye_mul(dense, moye_max(1, a->shape[mode]), &bad);
        }
        return;
    }
    memcpy(natural, a->strides, sizeof natural);
    for (mode = 0; mode < a->rank; mode++) {
        const int64_t extent = a->shape[mode], stride = a->strides[mode];
        int nonzero = 0;
        for (ones = 0, other = 0; other < a->rank; other++) {
            ones += natural[other] == 1;
            nonzero |= natural[other] != 0;
        }
        if ((extent <= 1 && stride == 1 && ones > 1) || (stride == 0 && extent <= 1 && nonzero)) {
            int64_t turn = 0;
            for (other = 0; other < a->rank; other++) {
                turn = moye_max(turn, moye_mul(moye_max(1, a->shape[other]), natural[other], &bad));
            }
            natural[mode] = ones ? turn : 1;
        }
    }
    memcpy(a->strides, natural, sizeof natural);
}

/* 0, or what is wrong: 1 a null pointer, 2 an extent or a stride below zero. */
MOYE_LOCAL int moye_describe(moye_array *a, const void *pointer, int64_t bytes, int rank, const int64_t *shape,
                         const int64_t *strides)
{
    int mode;
    memset(a, 0, sizeof *a);
    a->at = (uint64_t)(uintptr_t)pointer;
    a->bytes = bytes;
    a->rank = rank;
    if (rank > 0 && (shape == NULL || strides == NULL)) {
        return 1;
    }
    for (mode = 0; mode < rank; mode++) {
        a->shape[mode] = shape[mode];
        a->strides[mode] = strides[mode];
        a->empty |= shape[mode] == 0;
        if (shape[mode] < 0 || (strides[mode] < 0 && shape[mode] > 1)) {
            return 2;
        }
    }
    moye_natural_strides(a);
    return pointer == NULL && !a->empty ? 1 : 0;
}

/* The elements from the first to the last. */
MOYE_LOCAL int64_t moye_span(const moye_array *a, int *bad)
{
    int64_t span = 1;
    int mode;
    for (mode = 0; mode < a->rank; mode++) {
        span = moye_add(span, moye_mul(a->shape[mode] - 1, a->strides[mode], bad), bad);
    }
    return span;
}

/* Whether indices of 32 bits reach every element. */
MOYE_LOCAL int moye_indices_fit(const moye_array *a)
{
    int mode, bad = 0;
    int64_t most = moye_span(a, &bad);
    for (mode = 0; mode < a->rank; mode++) {
        most = moye_max(most, a->shape[mode]);
    }
    return !bad && most < ((int64_t)1 << 31);
}

MOYE_LOCAL uint64_t moye_common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The bytes that an array reaches over, beyond whole periods. */
MOYE_LOCAL uint64_t moye_window(const moye_array *a, uint64_t period)
{
    uint64_t bytes = (uint64_t)a->bytes;
    int mode;
    for (mode = 0; mode < a->rank; mode++) {
        const uint64_t step = (uint64_t)(a->strides[mode] * a->bytes);
        bytes += a->shape[mode] > 1 && step % period != 0 ? step * (uint64_t)(a->shape[mode] - 1) : 0;
    }
    return bytes;
}

MOYE_LOCAL int moye_apart(const moye_array *a, const moye_array *b, uint64_t period)
{
    const uint64_t behind = b->at >= a->at ? (b->at - a->at) % period : (period - (a->at - b->at) % period) % period;
    return behind >= moye_window(a, period) && (period - behind) % period >= moye_window(b, period);
}

MOYE_LOCAL int moye_apart_in_steps(const moye_array *a, const moye_array *b, const moye_array *of, uint64_t *common)
{
    int mode;
    for (mode = 0; mode < of->rank; mode++) {
        const uint64_t step = (uint64_t)(of->strides[mode] * of->bytes);
        if (of->shape[mode] > 1 && step != 0) {
            *common = moye_common_divisor(step, *common);
            if (moye_apart(a, b, step)) {
                return 1;
            }
        }
    }
    return 0;
}

/* May two arrays share a byte?  0 is certain; 1 may be too cautious for arrays that interleave. */
MOYE_LOCAL int moye_overlap(const moye_array *a, const moye_array *b)
{
    uint64_t common = 0, end_a, end_b;
    int bad = 0;
    if (a->empty || b->empty) {
        return 0;
    }
    end_a = a->at + (uint64_t)moye_mul(moye_span(a, &bad), a->bytes, &bad);
    end_b = b->at + (uint64_t)moye_mul(moye_span(b, &bad), b->bytes, &bad);
    if (bad) {
        return 1;
    }
    if (a->at >= end_b || b->at >= end_a) {
        return 0;
    }
    return !(moye_apart_in_steps(a, b, a, &common) || moye_apart_in_steps(a, b, b, &common)
             || (common != 0 && moye_apart(a, b, common)));
}

/* --- tensor maps --------------------------------------------------------------------------------------------------- */

enum { MOYE_DIMENSIONS = 5 };

typedef struct {
    int type, swizzle, promotion, fill, rank;               /* numbers of CUtensorMapDataType and its kin */
    int64_t bytes;                                          /* of an element */
    int counts[MOYE_DIMENSIONS], modes[MOYE_DIMENSIONS][MOYE_MODES];        /* the array's modes of each dimension */
    uint32_t box[MOYE_DIMENSIONS];
    int images;                                             /* whether it is in im2col mode */
    int lower[MOYE_DIMENSIONS], upper[MOYE_DIMENSIONS];
    uint32_t steps[MOYE_DIMENSIONS];
} moye_map;

/* Extent and stride (in bytes) of a dimension; a mode of one element has no stride of its own. */
MOYE_LOCAL void moye_dimension(const moye_map *map, const moye_array *a, int d, int64_t *extent, int64_t *apart,
                               int *bad)
{
    int i, first = map->modes[d][0], found = 0;
    *extent = 1;
    for (i = 0; i < map->counts[d]; i++) {
        const int mode = map->modes[d][i];
        *extent = moye_mul(*extent, a->shape[mode], bad);
        if (!found && a->shape[mode] != 1) {
            first = mode;
            found = 1;
        }
    }
    *apart = moye_mul(a->strides[first], map->bytes, bad);
}

/* Whether TMA takes the array; it writes whole parts of 16 bytes, and so only rows of such. */
MOYE_LOCAL int moye_map_fits(const moye_map *map, const moye_array *a, int writes)
{
    int64_t extent, apart;
    int d, mode, bad = 0;
    for (mode = 0; mode < a->rank; mode++) {
        bad |= a->shape[mode] < 1;
    }
    for (d = 0; d < map->rank; d++) {
        moye_dimension(map, a, d, &extent, &apart, &bad);
        bad |= extent >= (int64_t)1 << 31;
        bad |= d > 0 && extent > 1 && (apart % 16 != 0 || apart < 0 || apart >= (int64_t)1 << 40);
        bad |= d == 0 && writes && (extent * map->bytes) % 16 != 0;
    }
    return !bad && a->at % 16 == 0;
}

MOYE_LOCAL int moye_encode(moye_tensor_map *to, const moye_map *map, const moye_array *a)
{
    uint64_t extents[MOYE_DIMENSIONS], steps[MOYE_DIMENSIONS];
    uint32_t ones[MOYE_DIMENSIONS];
    void *at = (void *)(uintptr_t)a->at;
    int64_t extent, apart;
    int d, bad = 0;
    steps[0] = 16;
    for (d = 0; d < map->rank; d++) {
        moye_dimension(map, a, d, &extent, &apart, &bad);
        extents[d] = (uint64_t)extent;
        ones[d] = 1;
        if (d > 0) {                        /* the driver checks the stride of one element, too */
            steps[d - 1] = (uint64_t)(extent > 1 ? apart : moye_max(16, (apart + 15) / 16 * 16));
        }
    }
    if (map->images ? moye_cu.cuTensorMapEncodeIm2col == NULL : moye_cu.cuTensorMapEncodeTiled == NULL) {
        return MOYE_OLD_DRIVER;
    }
    if (map->images) {
        MOYE_CU(cuTensorMapEncodeIm2col(to, map->type, (uint32_t)map->rank, at, extents, steps, map->lower, map->upper,
                                        map->box[0], map->box[1], map->steps, 0, map->swizzle, map->promotion,
                                        map->fill));
    } else {
        MOYE_CU(cuTensorMapEncodeTiled(to, map->type, (uint32_t)map->rank, at, extents, steps, map->box, ones, 0,
                                       map->swizzle, map->promotion, map->fill));
    }
    return MOYE_OK;
}
