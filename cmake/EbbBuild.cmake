# How every target of ebb is built: ebb_module, ebb_program, ebb_test, ebb_fuzz.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_CXX_FLAGS_DEV "-O1 -g1 -D_GLIBCXX_ASSERTIONS")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")

find_program(EBB_CCACHE ccache)
if(EBB_CCACHE)
  # A precompiled header changes its time stamp, not its meaning.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${EBB_CCACHE})
endif()

add_library(ebb_flags INTERFACE)
# Same bytes out for the same input: no fused multiply-add chosen by the compiler.
target_compile_options(ebb_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror -ffp-contract=off)
target_include_directories(ebb_flags INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_BINARY_DIR}/generated)
find_program(EBB_MOLD mold)
if(EBB_MOLD)
  target_link_options(ebb_flags INTERFACE -fuse-ld=mold)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # These see overflows inside std::string of g++ 12 that are none (GCC bugs 105329, 105651); the asan preset looks for
  # real ones.
  target_compile_options(ebb_flags INTERFACE -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow)
  # ccache and precompiled headers agree only so.
  target_compile_options(ebb_flags INTERFACE -fpch-preprocess)
else()
  target_compile_options(ebb_flags INTERFACE "$<$<BOOL:${EBB_PCH}>:SHELL:-Xclang -fno-pch-timestamp>")
endif()
if(EBB_SANITIZE)
  target_compile_options(ebb_flags INTERFACE -fsanitize=${EBB_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(ebb_flags INTERFACE -fsanitize=${EBB_SANITIZE})
  if(EBB_FUZZ)
    target_compile_options(ebb_flags INTERFACE -fsanitize=fuzzer-no-link)
    target_link_options(ebb_flags INTERFACE -fsanitize=fuzzer-no-link)
  endif()
endif()

configure_file(${PROJECT_SOURCE_DIR}/cmake/version.h.in ${PROJECT_BINARY_DIR}/generated/ebb/version.h)

# One shared precompiled header of the standard headers that nearly every file uses.
if(EBB_PCH)
  file(WRITE ${PROJECT_BINARY_DIR}/generated/pch.cc "")
  add_library(ebb_pch OBJECT ${PROJECT_BINARY_DIR}/generated/pch.cc)
  target_link_libraries(ebb_pch PRIVATE ebb_flags)
  target_precompile_headers(ebb_pch PRIVATE
    <algorithm> <chrono> <compare> <cstdint> <functional> <limits> <map> <memory> <optional> <set> <span> <string>
    <string_view> <unordered_map> <utility> <variant> <vector>)
endif()

function(ebb_target_settings target)
  target_link_libraries(${target} PRIVATE ebb_flags)
  if(EBB_PCH)
    target_precompile_headers(${target} REUSE_FROM ebb_pch)
  endif()
endfunction()

# ebb_test(name SOURCES ... DEPS ... LIBS ...): a GoogleTest program, its cases known to ctest one by one.
function(ebb_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  ebb_target_settings(${name})
  list(TRANSFORM ARG_DEPS PREPEND ebb_)
  target_include_directories(${name} SYSTEM PRIVATE ${RAPIDCHECK_INCLUDE})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} ${ARG_LIBS} GTest::gtest GTest::gmock GTest::gtest_main
    ${RAPIDCHECK_LIBRARY})
  target_compile_definitions(${name} PRIVATE EBB_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    EBB_BINARY="$<TARGET_FILE_DIR:${name}>/ebb")
  gtest_discover_tests(${name} TEST_PREFIX ${name}. DISCOVERY_TIMEOUT 120)
endfunction()

# ebb_module(name DEPS modules LIBS libraries): src/ebb/<name> as a library, and its *_test.cc as one test program. A
# module may consist of headers only.
function(ebb_module name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ebb/${name}/*.cc)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(TRANSFORM ARG_DEPS PREPEND ebb_ OUTPUT_VARIABLE deps)
  if(sources)
    add_library(ebb_${name} STATIC ${sources})
    ebb_target_settings(ebb_${name})
    target_link_libraries(ebb_${name} PUBLIC ${deps} ${ARG_LIBS})
  else()
    add_library(ebb_${name} INTERFACE)
    target_link_libraries(ebb_${name} INTERFACE ${deps} ${ARG_LIBS})
  endif()
  if(EBB_TESTS AND tests)
    ebb_test(test_${name} SOURCES ${tests} DEPS ${name})
  endif()
endfunction()

# ebb_program(name SOURCE files DEPS modules): build/<preset>/bin/<name>.
function(ebb_program name)
  cmake_parse_arguments(ARG "" "" "SOURCE;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCE})
  ebb_target_settings(${name})
  list(TRANSFORM ARG_DEPS PREPEND ebb_)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
endfunction()

# ebb_fuzz(name SOURCE file DEPS modules): the libFuzzer program fuzz_<name>; its seeds are in fuzz/corpus/<name>, its
# words, if any, in fuzz/<name>.dict. ./run fuzz finds it.
function(ebb_fuzz name)
  cmake_parse_arguments(ARG "" "SOURCE" "DEPS" ${ARGN})
  ebb_program(fuzz_${name} SOURCE ${ARG_SOURCE} DEPS ${ARG_DEPS})
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
endfunction()

# ebb_embed(target SYMBOL name [BASE folder] FILES ...): compiles files into `target` as an array of {name, bytes};
# declared by ebb/base/embedded.h. Names are relative to BASE; without it they have no folder.
function(ebb_embed target)
  cmake_parse_arguments(ARG "" "SYMBOL;BASE" "FILES" ${ARGN})
  set(out ${PROJECT_BINARY_DIR}/generated/${ARG_SYMBOL}.cc)
  set(base "")
  if(ARG_BASE)
    set(base --base ${ARG_BASE})
  endif()
  add_custom_command(OUTPUT ${out}
    COMMAND python3 ${PROJECT_SOURCE_DIR}/tools/embed ${base} ${ARG_SYMBOL} ${out} ${ARG_FILES}
    DEPENDS ${ARG_FILES} ${PROJECT_SOURCE_DIR}/tools/embed VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()
