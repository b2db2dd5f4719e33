# ebb_proto(target FILES ebb/v1/x.proto ...): a library of the generated messages, included as "ebb/v1/x.pb.h". Paths are
# relative to proto/.

find_package(Protobuf REQUIRED)
find_program(EBB_PROTOC protoc REQUIRED)

function(ebb_proto target)
  cmake_parse_arguments(ARG "" "" "FILES" ${ARGN})
  set(generated ${PROJECT_BINARY_DIR}/generated/proto)
  file(MAKE_DIRECTORY ${generated})
  set(sources "")
  foreach(file ${ARG_FILES})
    string(REGEX REPLACE "\\.proto$" "" stem ${file})
    set(outputs ${generated}/${stem}.pb.cc ${generated}/${stem}.pb.h)
    add_custom_command(OUTPUT ${outputs}
      COMMAND ${EBB_PROTOC} -I ${PROJECT_SOURCE_DIR}/proto --cpp_out=${generated} ${PROJECT_SOURCE_DIR}/proto/${file}
      DEPENDS ${PROJECT_SOURCE_DIR}/proto/${file} VERBATIM)
    list(APPEND sources ${outputs})
  endforeach()
  add_library(${target} STATIC ${sources})
  # Generated: not ours to warn about.
  target_compile_options(${target} PRIVATE -w)
  if(EBB_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${EBB_SANITIZE} -fno-sanitize-recover=all)
  endif()
  target_include_directories(${target} SYSTEM PUBLIC ${generated})
  target_link_libraries(${target} PUBLIC protobuf::libprotobuf)
endfunction()
