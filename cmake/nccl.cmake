# tandem_nccl(TARGET SOURCES... OTHERWISE SOURCE): adds the sources that see nccl.h, or where there is no such header the one that
# says so. NCCL itself is loaded at run time; nothing is linked. TANDEM_HAS_NCCL tells which it was.
get_filename_component(cuda_home "${TANDEM_NVCC}" DIRECTORY)
find_path(TANDEM_CUDA_HEADERS cuda_runtime.h HINTS ${cuda_home}/../include /usr/local/cuda/include)
find_path(TANDEM_NCCL_HEADERS nccl.h HINTS ${TANDEM_CUDA_HEADERS})
set(TANDEM_HAS_NCCL OFF)
if(TANDEM_NCCL_HEADERS AND TANDEM_CUDA_HEADERS)
  set(TANDEM_HAS_NCCL ON)
endif()

function(tandem_nccl target)
  cmake_parse_arguments(of "" OTHERWISE "" ${ARGN})
  if(NOT TANDEM_HAS_NCCL)
    message(STATUS "NCCL: no nccl.h (it comes with CUDA's toolkit), so groups of GPUs that do not reach each other add up on the host")
    target_sources(${target} PRIVATE ${of_OTHERWISE})
    return()
  endif()
  message(STATUS "NCCL: ${TANDEM_NCCL_HEADERS}/nccl.h")
  target_sources(${target} PRIVATE ${of_UNPARSED_ARGUMENTS})
  set_source_files_properties(${of_UNPARSED_ARGUMENTS} PROPERTIES
    COMPILE_OPTIONS "-isystem;${TANDEM_CUDA_HEADERS};-isystem;${TANDEM_NCCL_HEADERS}")
  target_link_libraries(${target} PRIVATE ${CMAKE_DL_LIBS})
endfunction()
