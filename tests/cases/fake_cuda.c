/* A CUDA driver that is not there, for tests of exported C: memory is the host's, and each launch is noted.

   FAKE_CUDA_LOG names the file of notes: one line for each loaded library, encoded map and launch.
   FAKE_CUDA_ARCH is the compute capability (90), FAKE_CUDA_FAIL a function that fails, as name:error, FAKE_CUDA_SIZES
   the bytes of each parameter of a launch (8,8,4), of each launch in turn where there are several (8,4;8); the last are
   those of all that follow.  With FAKE_CUDA_RUN the kernels of examples/export are carried out on the host. */

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __thread void *current;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct {
    uint32_t grid[3], block[3], shared;
    void *stream;
    struct {
        uint32_t id, pad;
        uint32_t value[16];
    } *attributes;
    uint32_t count;
} Config;

static void note(const char *text)
{
    const char *path = getenv("FAKE_CUDA_LOG");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fputs(text, file);
        fclose(file);
    }
}

static int fails(const char *name)
{
    const char *asked = getenv("FAKE_CUDA_FAIL");
    const size_t length = strlen(name);
    return asked && strncmp(asked, name, length) == 0 && asked[length] == ':' ? atoi(asked + length + 1) : 0;
}

static int arch(void)
{
    return atoi(getenv("FAKE_CUDA_ARCH") ? getenv("FAKE_CUDA_ARCH") : "90");
}

int cuInit(unsigned flags) { return (int)flags + fails("cuInit"); }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)(uintptr_t)(0x1000 + device); return 0; }
int cuCtxSetCurrent(void *context) { current = context; return 0; }
int cuCtxGetCurrent(void **context) { *context = current; return 0; }
int cuCtxGetId(void *context, unsigned long long *id) { *id = (uintptr_t)context; return 0; }
int cuCtxGetDevice(int *device) { *device = (int)((uintptr_t)current - 0x1000); return 0; }
int cuCtxSynchronize(void) { return 0; }

int cuMemAlloc_v2(uint64_t *pointer, size_t bytes)
{
    *pointer = (uint64_t)(uintptr_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
    return 0;
}

int cuMemFree_v2(uint64_t pointer) { free((void *)(uintptr_t)pointer); return 0; }

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
    memcpy((void *)(uintptr_t)to, from, bytes);
    return 0;
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
    memcpy(to, (void *)(uintptr_t)from, bytes);
    return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == 75 ? arch() / 10 : attribute == 76 ? arch() % 10 : attribute == 16 ? 4 : 232448;
    return 0;
}

int cuLibraryLoadData(void **library, const void *code, void *a, void *b, unsigned c, void *d, void *e, unsigned f)
{
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
    note(memcmp(code, "\177ELF", 4) == 0 ? "load elf\n" : "load junk\n");
    *library = (void *)code;
    return fails("cuLibraryLoadData");
}

int cuLibraryGetKernel(void **kernel, void *library, const char *name)
{
    (void)library;
    *kernel = (void *)name;
    return fails("cuLibraryGetKernel");
}

int cuKernelGetFunction(void **function, void *kernel) { *function = kernel; return 0; }

int cuFuncGetAttribute(int *value, int attribute, void *function)
{
    (void)function;
    const char *threads = getenv("FAKE_CUDA_THREADS");
    *value = attribute == 0 ? (threads ? atoi(threads) : 1024) : 0;
    return 0;
}

int cuFuncSetAttribute(void *function, int attribute, int value)
{
    char text[128];
    snprintf(text, sizeof text, "set %s %d %d\n", (const char *)function, attribute, value);
    note(text);
    return 0;
}

int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared)
{
    (void)function, (void)threads, (void)shared;
    *blocks = 2;
    return 0;
}

int cuGetErrorString(int error, const char **text)
{
    *text = error == 700 ? "an illegal memory access was encountered" : "some error";
    return 0;
}

static int encoded(void *map, const char *kind, int type, uint32_t rank, void *at, const uint64_t *extents,
                   const uint64_t *strides, const uint32_t *box, int swizzle, int promotion, int fill)
{
    char text[1024];
    int used = snprintf(text, sizeof text, "%s %d %u %d %d %d", kind, type, rank, swizzle, promotion, fill);
    uint32_t i;
    for (i = 0; i < rank; i++) {
        used += snprintf(text + used, sizeof text - used, " %llu:%llu:%u", (unsigned long long)extents[i],
                         (unsigned long long)(i ? strides[i - 1] : 0), box[i]);
    }
    snprintf(text + used, sizeof text - used, "\n");
    note(text);
    memset(map, 0x5a, 128);
    memcpy(map, &at, sizeof at);
    return (uintptr_t)map % 64 ? 1 : fails("cuTensorMapEncodeTiled");
}

int cuTensorMapEncodeTiled(void *map, int type, uint32_t rank, void *at, const uint64_t *extents,
                           const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
                           int swizzle, int promotion, int fill)
{
    (void)interleave, (void)steps;
    return encoded(map, "tiled", type, rank, at, extents, strides, box, swizzle, promotion, fill);
}

int cuTensorMapEncodeIm2col(void *map, int type, uint32_t rank, void *at, const uint64_t *extents,
                            const uint64_t *strides, const int *lower, const int *upper, uint32_t channels,
                            uint32_t pixels, const uint32_t *steps, int interleave, int swizzle, int promotion,
                            int fill)
{
    const uint32_t box[5] = {channels, pixels, (uint32_t)lower[0], (uint32_t)upper[0], steps[1]};
    (void)interleave;
    return encoded(map, "im2col", type, rank, at, extents, strides, box, swizzle, promotion, fill);
}

/* --- the kernels of examples/export, on the host ------------------------------------------------------------------- */

#define AT(i, type) (*(type *)parameters[i])

static void saxpy(void **parameters)
{
    float *y = AT(0, float *), *x = AT(1, float *);
    const int n = AT(2, int);
    for (int i = 0; i < n; i++) {
        y[i] += AT(3, float) * x[i];
    }
}

static void product(void **parameters)
{
    float *C = AT(0, float *), *A = AT(4, float *), *B = AT(7, float *);
    const int M = AT(1, int), N = AT(2, int), ldc = AT(3, int), K = AT(5, int), lda = AT(6, int), ldb = AT(8, int);
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) {
            float sum = 0;
            for (int k = 0; k < K; k++) {
                sum += A[i * lda + k] * B[k * ldb + j];
            }
            C[i * ldc + j] = sum;
        }
    }
}

int cuLaunchKernelEx(const Config *config, void *function, void **parameters, void **extra)
{
    char text[4096];
    static const char *next;
    const char *sizes = next ? next : getenv("FAKE_CUDA_SIZES");
    uint32_t i;
    int used;
    (void)extra;
    pthread_mutex_lock(&lock);
    used = snprintf(text, sizeof text, "launch %s %u,%u,%u %u,%u,%u %u %p", (const char *)function, config->grid[0],
                    config->grid[1], config->grid[2], config->block[0], config->block[1], config->block[2],
                    config->shared, config->stream);
    for (i = 0; i < config->count; i++) {
        used += snprintf(text + used, sizeof text - used, " attribute=%u:%u,%u,%u", config->attributes[i].id,
                         config->attributes[i].value[0], config->attributes[i].value[1], config->attributes[i].value[2]);
    }
    for (i = 0; sizes && *sizes && *sizes != ';'; i++) {
        const int bytes = (int)strtol(sizes, (char **)&sizes, 10);
        used += snprintf(text + used, sizeof text - used, " ");
        for (int b = 0; b < bytes; b++) {
            used += snprintf(text + used, sizeof text - used, "%02x", ((unsigned char *)parameters[i])[b]);
        }
        sizes += *sizes == ',';
    }
    next = sizes && *sizes == ';' ? sizes + 1 : next;
    snprintf(text + used, sizeof text - used, "\n");
    note(text);
    if (getenv("FAKE_CUDA_RUN") && strcmp((const char *)function, "saxpy") == 0) {
        saxpy(parameters);
    }
    if (getenv("FAKE_CUDA_RUN") && strcmp((const char *)function, "product") == 0) {
        product(parameters);
    }
    pthread_mutex_unlock(&lock);
    return fails("cuLaunchKernelEx");
}
