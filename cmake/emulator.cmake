# How the CUDA kernels (.cu) are compiled by the C++ compiler. Arithmetic is optimised in every build type, as in
# kernels/; under sanitizers a little (-Og), for compiling them takes a third of that build's time. A local that a kernel did not set
# is poison and not zero. GPU_EMULATOR is the header that gpu.h then takes for CUDA's.
function(tandem_kernel_files name options)
  set(optimised -O2)
  if(SANITIZE)
    set(optimised -Og)
  endif()
  target_link_libraries(${name} PRIVATE tandem_flags)
  set_target_properties(${name} PROPERTIES KERNEL_OPTIONS
    "${optimised};-DGPU_EMULATOR=\"tests/emulator/emu.h\";-fno-var-tracking;-Wno-unknown-pragmas;-ftrivial-auto-var-init=pattern;${options}")
  foreach(source ${ARGN}) # a file may stand in several targets, whose options differ
    set(language)
    if(source MATCHES "\\.cu$")
      set_source_files_properties(${source} PROPERTIES LANGUAGE CXX)
      set(language "-x;c++;")
    endif()
    set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
      "${language}$<TARGET_PROPERTY:KERNEL_OPTIONS>")
  endforeach()
endfunction()

if(TANDEM_EMU AND SANITIZE MATCHES "thread")
  message(FATAL_ERROR "TANDEM_EMU: ThreadSanitizer cannot follow the emulator's fibers; build without one of the two")
endif()

# tandem_emulated(NAME SOURCES...) : an object library of kernels and of the emulator itself (.cc).
#
# Of a build with sanitizers these check indices and shifts alone, unless TANDEM_ALL_SANITIZED: with all of it they take three
# times as long to compile and to run, and what it finds tandem_watched() finds too.
function(tandem_emulated name)
  set(checks)
  if(SANITIZE AND NOT TANDEM_ALL_SANITIZED)
    set(checks "-fno-sanitize=all;-fsanitize=bounds,shift;-fno-sanitize-recover=all")
  endif()
  add_library(${name} OBJECT ${ARGN})
  tandem_kernel_files(${name} "${checks}" ${ARGN})
endfunction()

# tandem_watched(NAME SOURCES...) : the same kernels for a program in which each of their accesses is looked at
# (race.cc). There the objects stand before tandem_kernels, whose own of the same names are then left out.
function(tandem_watched name)
  set(watcher ${CMAKE_SOURCE_DIR}/tests/emulator/race.cc)
  add_library(${name} OBJECT ${ARGN} ${watcher})
  set_source_files_properties(${watcher} PROPERTIES
    COMPILE_OPTIONS "-O2;-Wno-maybe-uninitialized") # which gcc 12 suspects in unordered_map under ASan
  tandem_kernel_files(${name} "-O1;-fno-sanitize=all;-fsanitize=thread;--param=tsan-instrument-func-entry-exit=0;\
-fsanitize=bounds;-fno-sanitize-recover=all" ${ARGN})
endfunction()
