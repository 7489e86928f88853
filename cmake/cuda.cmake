# tandem_cuda_objects(TARGET SOURCES...): compiles CUDA C++ with nvcc and links it, with the CUDA runtime, into TARGET.
#
# Numbers: the flags are what kernels/cuda/gpu/gpu.h promises: no contraction, flush-to-zero, IEEE division and roots.
set(TANDEM_CUDA_ARCHITECTURES "80;90a" CACHE STRING "GPUs to compile for: sm_NN")

function(tandem_cuda_objects target)
  set(flags -std=c++17 -O3 -fmad=false -ftz=true -prec-div=true -prec-sqrt=true -Werror all-warnings
    -Xfatbin -compress-all -Xcompiler -fPIC -I${CMAKE_SOURCE_DIR})
  foreach(arch ${TANDEM_CUDA_ARCHITECTURES})
    list(APPEND flags -gencode=arch=compute_${arch},code=sm_${arch})
  endforeach()
  list(GET TANDEM_CUDA_ARCHITECTURES 0 least) # newer devices' drivers compile it
  list(APPEND flags -gencode=arch=compute_${least},code=compute_${least})
  foreach(source ${ARGN})
    get_filename_component(name ${source} NAME_WE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/cuda/${name}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/cuda
      COMMAND ${TANDEM_NVCC} ${flags} -MD -MF ${object}.d -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
      DEPENDS ${source} DEPFILE ${object}.d VERBATIM)
    target_sources(${target} PRIVATE ${object})
    set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  endforeach()
  get_filename_component(home ${TANDEM_NVCC} DIRECTORY)
  find_library(TANDEM_CUDART cudart_static HINTS ${home}/../lib64 REQUIRED)
  target_link_libraries(${target} PUBLIC ${TANDEM_CUDART} stdc++ dl rt Threads::Threads)
endfunction()
