#include "ebb/agent/slots.h"

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace ebb::agent {
namespace {

template <typename Function>
bool find_symbol(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

std::string text_of(const Nvml& nvml, int (*get)(Nvml::Device, char*, unsigned int), Nvml::Device device) {
  static_cast<void>(nvml);
  char text[96] = {};
  return get(device, text, sizeof text) == 0 ? text : "";
}

/// The GPUs that a value of CUDA_VISIBLE_DEVICES names, in its order; as CUDA does, up to the first name it does not
/// know.
std::vector<Gpu> visible_of(const std::vector<Gpu>& all, std::string_view names) {
  std::vector<Gpu> seen;
  while (!names.empty()) {
    const std::size_t comma = std::min(names.find(','), names.size());
    const std::string_view name = names.substr(0, comma);
    names.remove_prefix(std::min(comma + 1, names.size()));
    std::uint32_t index = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool is_number = error == std::errc{} && end == name.data() + name.size();
    const auto gpu = std::find_if(all.begin(), all.end(), [&](const Gpu& one) {
      return is_number ? one.index == index : name.size() >= 4 && one.uuid.starts_with(name);
    });
    if (gpu == all.end()) break;
    seen.push_back(*gpu);
  }
  return seen;
}

std::int32_t usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<std::int32_t>(std::max(::sysconf(_SC_NPROCESSORS_ONLN), 1L));  // above 1,024 CPUs
}

}  // namespace

Result<Nvml> load_nvml(const char* library) {
  void* const handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return fail(ErrorCode::not_found, "no NVIDIA driver ({})", ::dlerror());
  Nvml nvml;
  if (!find_symbol(handle, "nvmlInit_v2", nvml.init) || !find_symbol(handle, "nvmlShutdown", nvml.shutdown) ||
      !find_symbol(handle, "nvmlDeviceGetCount_v2", nvml.count) ||
      !find_symbol(handle, "nvmlDeviceGetHandleByIndex_v2", nvml.handle) ||
      !find_symbol(handle, "nvmlDeviceGetUUID", nvml.uuid) || !find_symbol(handle, "nvmlDeviceGetName", nvml.name) ||
      !find_symbol(handle, "nvmlDeviceGetMemoryInfo", nvml.memory) ||
      !find_symbol(handle, "nvmlErrorString", nvml.error_string)) {
    const std::string why = ::dlerror();
    ::dlclose(handle);
    return fail(ErrorCode::unavailable, "'{}' is not NVML as ebb knows it: {}", library, why);
  }
  return nvml;
}

Result<std::vector<Gpu>> find_gpus(const Nvml& nvml, const std::optional<std::string>& visible) {
  if (const int error = nvml.init(); error != 0) {
    return fail(ErrorCode::unavailable, "NVML does not start: {}", nvml.error_string(error));
  }
  std::vector<Gpu> gpus;
  unsigned int count = 0;
  int error = nvml.count(&count);
  for (unsigned int i = 0; error == 0 && i < count; ++i) {
    Nvml::Device device = nullptr;
    Nvml::Memory memory;
    if ((error = nvml.handle(i, &device)) != 0 || (error = nvml.memory(device, &memory)) != 0) break;
    gpus.push_back({.index = i,
                    .uuid = text_of(nvml, nvml.uuid, device),
                    .name = text_of(nvml, nvml.name, device),
                    .memory_bytes = memory.total});
  }
  nvml.shutdown();
  if (error != 0) return fail(ErrorCode::unavailable, "NVML: GPU {}: {}", gpus.size(), nvml.error_string(error));
  return visible ? visible_of(gpus, *visible) : gpus;
}

SlotSet cpu_slots(std::int32_t count) {
  const std::int32_t cpus = usable_cpus();
  SlotSet slots;
  slots.count = count > 0 ? count : cpus;
  slots.milli_cpus_per_slot = std::max<std::int64_t>(std::int64_t{cpus} * 1000 / slots.count, 1);
  const std::int64_t memory = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  slots.memory_bytes_per_slot = memory / 10 * 9 / slots.count;
  return slots;
}

SlotSet discover() {
  std::string why;
  if (const auto nvml = load_nvml(); !nvml) {
    why = nvml.error().message;
  } else {
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    auto gpus = find_gpus(*nvml, visible != nullptr ? std::optional<std::string>(visible) : std::nullopt);
    if (gpus && !gpus->empty()) {
      SlotSet slots;
      slots.count = static_cast<std::int32_t>(gpus->size());
      slots.gpus = std::move(*gpus);
      return slots;
    }
    why = gpus ? "the NVIDIA driver shows no GPU" : gpus.error().message;
  }
  SlotSet slots = cpu_slots();
  slots.note = std::move(why);
  return slots;
}

std::vector<std::string> device_environment(const SlotSet& slots, const std::vector<std::int32_t>& held) {
  if (slots.gpus.empty()) return {};
  std::string devices;
  for (const std::int32_t slot : held) {
    devices += fmt::format("{}{}", devices.empty() ? "" : ",", slots.gpus[static_cast<std::size_t>(slot)].index);
  }
  // CUDA's own order is by speed; NVML's is by bus.
  return {"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=" + devices};
}

}  // namespace ebb::agent
