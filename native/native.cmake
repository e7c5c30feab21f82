# What every native program includes: compiler settings, jansson and zlib, and the library
# native_support (histogram, clock, random numbers, JSON). A program is built and tested alone with
#
#   cmake -S loadgen -B /tmp/loadgen -DCMAKE_BUILD_TYPE=Debug -DNATIVE_TESTS=ON \
#         -DNATIVE_SANITIZE=ON && cmake --build /tmp/loadgen && ctest --test-dir /tmp/loadgen
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
option(NATIVE_TESTS "build the C tests" OFF)
option(NATIVE_SANITIZE "use the address and undefined-behaviour sanitizers" OFF)

find_package(Threads REQUIRED)
find_path(JANSSON_INCLUDE jansson.h)
find_library(JANSSON_LIBRARY jansson)
find_path(ZLIB_INCLUDE zlib.h)
find_library(ZLIB_LIBRARY z)
set(NATIVE_PACKAGES libjansson-dev zlib1g-dev) # Debian's
set(NATIVE_FOUND ON)
if(NOT JANSSON_INCLUDE OR NOT JANSSON_LIBRARY OR NOT ZLIB_INCLUDE OR NOT ZLIB_LIBRARY)
  set(NATIVE_FOUND OFF) # the program is left out, so that the harness installs anywhere
  message(STATUS "${PROJECT_NAME} is left out: jansson or zlib is missing"
                 " (Debian: ${NATIVE_PACKAGES})")
endif()

set(NATIVE_VERSION developer)
if(SKBUILD_PROJECT_VERSION)
  set(NATIVE_VERSION ${SKBUILD_PROJECT_VERSION})
endif()
add_compile_definitions(_GNU_SOURCE)
add_compile_options(-Wall -Wextra -Wno-unused-parameter)
if(NATIVE_TESTS) # not where it is installed: newer compilers warn of more
  add_compile_options(-Werror)
endif()
if(NATIVE_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()
if(NATIVE_FOUND AND NOT TARGET native_support)
  add_subdirectory(${CMAKE_CURRENT_LIST_DIR} native)
endif()

# Installs PROGRAM.json: the number by which the harness knows that the program is the one it was
# written for, and the Debian packages of each part ("part": ["package", …]).
function(install_description program packages)
  file(STRINGS ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../harness/native_programs.py interface
       REGEX "^[A-Z]+_INTERFACE = ")
  string(TOUPPER ${program} name)
  list(FILTER interface INCLUDE REGEX "^${name}_")
  string(REGEX MATCH "[0-9]+" interface "${interface}")
  set(description ${CMAKE_CURRENT_BINARY_DIR}/${program}.json)
  file(WRITE ${description} "{\"interface\": ${interface}, \"packages\": {${packages}}}\n")
  install(FILES ${description} DESTINATION .)
endfunction()

# Sets `result` to "part": ["package", …].
function(describe_packages result part)
  list(JOIN ARGN "\", \"" packages)
  set(${result} "\"${part}\": [\"${packages}\"]" PARENT_SCOPE)
endfunction()
