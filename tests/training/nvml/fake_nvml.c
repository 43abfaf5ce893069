/* A libnvidia-ml.so.1 of two GPUs for tests, compiled against NVIDIA's own nvml.h (package nvidia-nvml-dev): the
   compiler refuses another signature, and the structures are laid out as the driver lays them out.

   Every figure differs from every other one, so that none can stand for another. The first GPU tells all it can; the
   second one, as a GPU in a virtual machine, tells neither power, clocks, memory nor ECC. */

#include <nvml.h>
#include <string.h>

#define FIRST "GPU-11111111-2222-3333-4444-555555555555"
#define SECOND "GPU-66666666-7777-8888-9999-000000000000"
#define GIB (1024ULL * 1024 * 1024)

struct nvmlDevice_st {
    const char *uuid, *name;
    int tells;
};
static struct nvmlDevice_st devices[] = {{FIRST, "NVIDIA Model 24GB", 1}, {SECOND, "NVIDIA vGPU", 0}};

static nvmlReturn_t told(nvmlDevice_t device) { return device->tells ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED; }

nvmlReturn_t nvmlInitWithFlags(unsigned int flags) { return flags ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS; }
nvmlReturn_t nvmlShutdown(void) { return NVML_SUCCESS; }
const char *nvmlErrorString(nvmlReturn_t result) { return result ? "not supported" : "success"; }

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    strncpy(version, "580.65.06", length);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version) {
    *version = 13020;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    *count = sizeof devices / sizeof devices[0];
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    *device = &devices[index];
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    for (unsigned int index = 0; index < sizeof devices / sizeof devices[0]; index++)
        if (!strcmp(uuid, devices[index].uuid)) return nvmlDeviceGetHandleByIndex_v2(index, device);
    return NVML_ERROR_NOT_FOUND;
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length) {
    strncpy(uuid, device->uuid, length);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length) {
    strncpy(name, device->name, length);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates) {
    rates->gpu = 37; /* percent */
    rates->memory = 91;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    memory->total = 24 * GIB; /* bytes */
    memory->used = 6 * GIB;
    memory->free = 18 * GIB;
    return told(device);
}
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned int *degrees) {
    *degrees = 64; /* Celsius */
    return sensor == NVML_TEMPERATURE_GPU ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *milliwatts) {
    *milliwatts = 312500;
    return told(device);
}
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int *milliwatts) {
    *milliwatts = 400000;
    return told(device);
}
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *megahertz) {
    *megahertz = type == NVML_CLOCK_SM ? 1410 : type == NVML_CLOCK_MEM ? 1593 : 1275;
    return told(device);
}
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *reasons) {
    *reasons = nvmlClocksThrottleReasonHwThermalSlowdown | nvmlClocksEventReasonSwPowerCap;
    return told(device);
}
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending) {
    *current = NVML_DEVICE_MIG_DISABLE;
    *pending = NVML_DEVICE_MIG_ENABLE;
    return told(device);
}
nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending) {
    *current = NVML_FEATURE_ENABLED;
    *pending = NVML_FEATURE_DISABLED;
    return told(device);
}
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t error, nvmlEccCounterType_t counter,
                                         unsigned long long *count) {
    *count = error == NVML_MEMORY_ERROR_TYPE_UNCORRECTED && counter == NVML_VOLATILE_ECC ? 3 : 77;
    return told(device);
}
#ifndef OLD /* drivers of before this function have no such symbol */
nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, nvmlEnableState_t *mode) {
    *mode = NVML_FEATURE_ENABLED;
    return NVML_SUCCESS;
}
#endif
