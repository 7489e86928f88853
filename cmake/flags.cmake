# Warnings, hardening and sanitizers, in one interface target that every room links.
include(CheckCCompilerFlag)
include(CheckPIESupported)
check_pie_supported()

add_library(tandem_flags INTERFACE)
target_include_directories(tandem_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(tandem_flags INTERFACE _GNU_SOURCE TANDEM_VERSION="${PROJECT_VERSION}")
target_compile_options(tandem_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes> -Wvla -Wformat=2
  -Wimplicit-fallthrough -Wno-sign-conversion $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation>
  # ASSERT(!"why") is how we say it.
  $<$<C_COMPILER_ID:Clang>:-Wno-string-conversion>
  # The same bits on every path: a*b+c is fused only where the code says fmaf (docs/architecture/numerics.md).
  -ffp-contract=off -fno-strict-overflow -fno-delete-null-pointer-checks)
if(TANDEM_WERROR)
  target_compile_options(tandem_flags INTERFACE -Werror)
endif()

foreach(flag -Wtrampolines -Wbidi-chars=any -ftrivial-auto-var-init=zero -fstack-clash-protection
        -fstack-protector-strong -fcf-protection=full)
  string(MAKE_C_IDENTIFIER "have${flag}" have)
  check_c_compiler_flag(${flag} ${have})
  if(${have})
    target_compile_options(tandem_flags INTERFACE ${flag})
  endif()
endforeach()

# What of a directory is compiled with; tests/ may have less.
set(TANDEM_SANITIZE "${SANITIZE}")
define_property(TARGET PROPERTY TANDEM_SANITIZE INITIALIZE_FROM_VARIABLE TANDEM_SANITIZE)
if(SANITIZE)
  target_compile_options(tandem_flags INTERFACE -fsanitize=$<TARGET_PROPERTY:TANDEM_SANITIZE> -fno-omit-frame-pointer)
  if(NOT SANITIZE STREQUAL "thread")
    target_compile_options(tandem_flags INTERFACE -fno-sanitize-recover=all)
  endif()
  target_link_options(tandem_flags INTERFACE -fsanitize=${SANITIZE})
  # Some 280 programs are linked: half of what a build takes of which the compiler's cache has everything.
  find_program(TANDEM_MOLD mold)
  if(TANDEM_MOLD)
    target_link_options(tandem_flags INTERFACE -fuse-ld=mold)
  endif()
  target_compile_definitions(tandem_flags INTERFACE TANDEM_SANITIZED)
else()
  target_compile_options(tandem_flags INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
  target_link_options(tandem_flags INTERFACE -Wl,-z,noexecstack -Wl,-z,relro -Wl,-z,now)
endif()
if(TANDEM_FUZZ)
  target_compile_options(tandem_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(tandem_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# tandem_room(NAME SOURCES... ) : a static library named tandem_NAME with the common flags.
function(tandem_room name)
  add_library(tandem_${name} STATIC ${ARGN})
  target_link_libraries(tandem_${name} PUBLIC tandem_flags)
endfunction()

# tandem_arithmetic(TARGET SOURCES...) : what of the target's directory does little but compute: optimised in every build type, as
# kernels/ is.
function(tandem_arithmetic target)
  set_property(SOURCE ${ARGN} TARGET_DIRECTORY ${target} APPEND PROPERTY COMPILE_OPTIONS -O2)
endfunction()

# tandem_program(NAME SOURCES...) : a position-independent program in build/PRESET/bin.
function(tandem_program name)
  add_executable(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(${name} PRIVATE tandem_flags)
endfunction()
