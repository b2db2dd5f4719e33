#pragma once

/// What an agent has to give: GPUs, or shares of CPU and memory that stand for them.
///
/// discover() asks NVIDIA's management library, loaded at run time (no part of the build knows it); a machine without
/// it, or without GPUs, gets CPU slots. CUDA_VISIBLE_DEVICES of the agent itself is obeyed, as numbers or UUIDs.
/// MIG instances are not told apart: a GPU in MIG mode counts as one.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ebb/base/result.h"

namespace ebb::agent {

struct Gpu {
  std::uint32_t index = 0;  ///< in order of PCI bus, as NVML and `nvidia-smi` count
  std::string uuid;         ///< "GPU-..."
  std::string name;         ///< "NVIDIA H200"
  std::uint64_t memory_bytes = 0;
  bool operator==(const Gpu&) const = default;
};

struct SlotSet {
  std::vector<Gpu> gpus;  ///< slot i is GPU gpus[i]; empty: CPU slots
  std::int32_t count = 0;
  std::int64_t milli_cpus_per_slot = 0;               ///< CPU slots: the share of each; 0 = no limit
  std::optional<std::int64_t> memory_bytes_per_slot;  ///< CPU slots: for workers that ask for no memory of their own
  std::string note;                                   ///< why there are no GPUs, for an operator
  bool operator==(const SlotSet&) const = default;
};

/// The few functions of NVML that are used. Their declarations are NVIDIA's (nvml.h 12), stable since version 2 of
/// each.
struct Nvml {
  using Device = struct nvmlDevice_st*;  // NOLINT(readability-identifier-naming): opaque in nvml.h
  struct Memory {
    unsigned long long total = 0;
    unsigned long long free = 0;
    unsigned long long used = 0;
  };
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned int*) = nullptr;
  int (*handle)(unsigned int, Device*) = nullptr;
  int (*uuid)(Device, char*, unsigned int) = nullptr;
  int (*name)(Device, char*, unsigned int) = nullptr;
  int (*memory)(Device, Memory*) = nullptr;
  const char* (*error_string)(int) = nullptr;
};

/// Loads the library for the rest of the process. Errors: not_found if it is not there; unavailable if it is not NVML.
Result<Nvml> load_nvml(const char* library = "libnvidia-ml.so.1");

/// `visible`: CUDA_VISIBLE_DEVICES, nullopt if unset. Errors: unavailable with NVML's words.
Result<std::vector<Gpu>> find_gpus(const Nvml& nvml, const std::optional<std::string>& visible);

/// `count` CPU slots that share the CPUs which this process may use, and nine tenths of its memory; 0 = one for each
/// CPU.
SlotSet cpu_slots(std::int32_t count = 0);

/// GPUs if there are any, else cpu_slots().
SlotSet discover();

/// What a worker on these slots gets in its environment, "NAME=value": which devices it sees.
std::vector<std::string> device_environment(const SlotSet& slots, const std::vector<std::int32_t>& held);

}  // namespace ebb::agent
