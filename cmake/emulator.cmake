# tandem_emulated(NAME SOURCES...) : an object library of kernels (.cu) and of the emulator (.cc), which the C++ compiler
# compiles. Arithmetic is optimised in every build type, as in kernels/. A local that a kernel did not set is poison and
# not zero. ThreadSanitizer cannot follow fibers: it sees the host's side (device_emu.cc's callers, its locks) alone.
function(tandem_emulated name)
  add_library(${name} OBJECT ${ARGN})
  target_link_libraries(${name} PRIVATE tandem_flags)
  target_compile_options(${name} PRIVATE -O2)
  set(options -Wno-unknown-pragmas -ftrivial-auto-var-init=pattern)
  if(SANITIZE MATCHES "thread")
    list(APPEND options -fno-sanitize=thread)
  endif()
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "${options}")
  foreach(source ${ARGN})
    if(source MATCHES "\\.cu$")
      set_source_files_properties(${source} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++;${options}")
    endif()
  endforeach()
endfunction()
