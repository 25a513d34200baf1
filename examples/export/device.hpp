// Memory of a CUDA device by the driver alone, so that this example builds without the CUDA toolkit.  A program that has
// the toolkit uses cudaMalloc and its kin instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <dlfcn.h>

namespace device {

inline void *symbol(const char *name)
{
    static void *const library = dlopen("libcuda.so.1", RTLD_NOW);
    void *const found = library ? dlsym(library, name) : nullptr;
    if (!found) {
        throw std::runtime_error(std::string("there is no ") + name + ": is an NVIDIA driver installed?");
    }
    return found;
}

template <class... Parameters, class... Arguments> void call(const char *name, Arguments... arguments)
{
    if (int error = reinterpret_cast<int (*)(Parameters...)>(symbol(name))(arguments...)) {
        throw std::runtime_error(std::string(name) + " failed with error " + std::to_string(error));
    }
}

// Makes the primary context of a device, which the runtime API and most libraries use, current in this thread.
inline void use(int ordinal)
{
    int device = 0;
    void *context = nullptr;
    call<unsigned>("cuInit", 0u);
    call<int *, int>("cuDeviceGet", &device, ordinal);
    call<void **, int>("cuDevicePrimaryCtxRetain", &context, device);
    call<void *>("cuCtxSetCurrent", context);
}

class Floats {
public:
    explicit Floats(const std::vector<float> &values) : bytes(values.size() * sizeof(float))
    {
        call<std::uint64_t *, std::size_t>("cuMemAlloc_v2", &address, bytes);
        call<std::uint64_t, const void *, std::size_t>("cuMemcpyHtoD_v2", address, values.data(), bytes);
    }
    Floats(const Floats &) = delete;
    Floats &operator=(const Floats &) = delete;
    ~Floats() { reinterpret_cast<int (*)(std::uint64_t)>(symbol("cuMemFree_v2"))(address); }

    float *data() const { return reinterpret_cast<float *>(address); }

    // Waits for the kernels before.
    std::vector<float> host() const
    {
        std::vector<float> values(bytes / sizeof(float));
        call<>("cuCtxSynchronize");
        call<void *, std::uint64_t, std::size_t>("cuMemcpyDtoH_v2", values.data(), address, bytes);
        return values;
    }

private:
    std::size_t bytes;
    std::uint64_t address = 0;
};

} // namespace device
