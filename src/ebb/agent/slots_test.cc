#include "ebb/agent/slots.h"

#include "ebb/agent/testing.h"

namespace ebb::agent {
namespace {

// A driver with three GPUs.
struct FakeDriver {
  static inline int failing = -1;
  static Nvml nvml() {
    failing = -1;
    return {.init = [] { return 0; },
            .shutdown = [] { return 0; },
            .count =
                [](unsigned int* count) {
                  *count = 3;
                  return 0;
                },
            .handle =
                [](unsigned int index, Nvml::Device* device) {
                  *device = reinterpret_cast<Nvml::Device>(std::uintptr_t{index} + 1);
                  return static_cast<int>(index) == failing ? 15 : 0;
                },
            .uuid =
                [](Nvml::Device device, char* text, unsigned int size) {
                  *fmt::format_to_n(text, size - 1, "GPU-{:04}-b", reinterpret_cast<std::uintptr_t>(device)).out = 0;
                  return 0;
                },
            .name =
                [](Nvml::Device, char* text, unsigned int size) {
                  *fmt::format_to_n(text, size - 1, "NVIDIA H200").out = 0;
                  return 0;
                },
            .memory =
                [](Nvml::Device, Nvml::Memory* memory) {
                  memory->total = 1000;
                  return 0;
                },
            .error_string = [](int) { return "GPU is lost"; }};
  }
};

std::vector<std::uint32_t> indices(const Result<std::vector<Gpu>>& gpus) {
  std::vector<std::uint32_t> all;
  for (const Gpu& gpu : gpus.value()) all.push_back(gpu.index);
  return all;
}

using Indices = std::vector<std::uint32_t>;

TEST(Slots, ListsGpus) {
  const auto gpus = find_gpus(FakeDriver::nvml(), {});
  ASSERT_TRUE(gpus);
  ASSERT_EQ(gpus->size(), 3U);
  EXPECT_EQ((*gpus)[1], (Gpu{.index = 1, .uuid = "GPU-0002-b", .name = "NVIDIA H200", .memory_bytes = 1000}));
}

TEST(Slots, ObeysVisibleDevices) {
  const Nvml nvml = FakeDriver::nvml();
  EXPECT_EQ(indices(find_gpus(nvml, "2,0")), (Indices{2, 0}));
  EXPECT_EQ(indices(find_gpus(nvml, "GPU-0003")), (Indices{2}));
  EXPECT_EQ(indices(find_gpus(nvml, "1,7,0")), (Indices{1})) << "as CUDA: up to the first that is not there";
  EXPECT_EQ(indices(find_gpus(nvml, "")), Indices{});
  EXPECT_EQ(indices(find_gpus(nvml, "-1")), Indices{});
}

TEST(Slots, SaysWhatTheDriverSays) {
  const Nvml nvml = FakeDriver::nvml();
  FakeDriver::failing = 1;
  const auto gpus = find_gpus(nvml, {});
  ASSERT_FALSE(gpus);
  EXPECT_EQ(gpus.error().message, "NVML: GPU 1: GPU is lost");
}

TEST(Slots, ALibraryThatIsNotNvmlIsRefused) {
  EXPECT_EQ(load_nvml("libno-such-library.so.1").error().code, ErrorCode::not_found);
  EXPECT_EQ(load_nvml("libc.so.6").error().code, ErrorCode::unavailable);
}

TEST(Slots, CpuSlotsShareTheMachine) {
  const SlotSet all = cpu_slots();
  EXPECT_GE(all.count, 1);
  EXPECT_EQ(all.milli_cpus_per_slot, 1000);
  const SlotSet more = cpu_slots(all.count * 4);
  EXPECT_EQ(more.milli_cpus_per_slot, 250);
  EXPECT_LE(*more.memory_bytes_per_slot * 4, *all.memory_bytes_per_slot);
  EXPECT_GT(*more.memory_bytes_per_slot, 0);
}

TEST(Slots, AWorkerSeesItsDevicesOnly) {
  SlotSet slots;
  slots.gpus = {{.index = 3, .uuid = "", .name = "", .memory_bytes = 0},
                {.index = 5, .uuid = "", .name = "", .memory_bytes = 0}};
  slots.count = 2;
  EXPECT_EQ(device_environment(slots, {1}),
            (std::vector<std::string>{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=5"}));
  EXPECT_EQ(device_environment(slots, {0, 1})[1], "CUDA_VISIBLE_DEVICES=3,5");
  EXPECT_EQ(device_environment(slots, {})[1], "CUDA_VISIBLE_DEVICES=");
  EXPECT_TRUE(device_environment(cpu_slots(2), {0}).empty());
}

}  // namespace
}  // namespace ebb::agent
