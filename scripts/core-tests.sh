#!/usr/bin/env bash
# core-tests.sh VARIANT: build the core and its tests in build/core-VARIANT and run them, once per instruction set.
#
#   release    the library as it is installed   address      AddressSanitizer and UndefinedBehaviorSanitizer, by g++
#   portable   no instruction set is assumed    thread       ThreadSanitizer
#   arm        cross-compiled and emulated      old-x86      release on an emulated processor without AVX
#
# Warnings are errors, but in the installed library. `portable` and `thread` are built by clang++ where it is installed,
# so that a second compiler has seen every kernel, fully optimised.
set -euo pipefail

variant=$1
build=build/core-$variant
PATH=$PWD/$VENV/bin:$PATH     # cmake and ninja
flags=()
runner=()

skip() {
  echo "$*"
  exit 77
}
# second_compiler [FLAG]: clang++, if it is there, recent enough, and has the libraries of the flag.
second_compiler() {
  if command -v clang++ >/dev/null && [ "$(clang++ -dumpversion | cut -d. -f1)" -ge 14 ] &&
    clang++ "$@" -x c++ -o /dev/null - <<<'int main() {}' 2>/dev/null; then
    flags=(-DCMAKE_CXX_COMPILER=clang++)
  else
    echo "no clang++ 14 or later that takes '$*' (Debian, Ubuntu: apt-get install clang): built by the usual compiler"
  fi
}
need() { command -v "$1" >/dev/null || skip "$1 is not installed (Debian, Ubuntu: apt-get install $2)"; }

# The tables that a build for this machine can run; KNOLL_ISA chooses among them.
sets=portable
case $(uname -m) in
  x86_64 | amd64)
    sets=baseline
    if grep -qw avx2 /proc/cpuinfo 2>/dev/null && grep -qw fma /proc/cpuinfo; then
      sets="baseline avx2"
    elif sysctl -n machdep.cpu.leaf7_features 2>/dev/null | grep -qw AVX2; then
      sets="baseline avx2"
    fi
    ;;
esac

case $variant in
  release)
    build=$(scripts/installed-build.sh)
    ;;
  portable)
    second_compiler
    flags+=(-DKNOLL_PORTABLE=ON -DKNOLL_WERROR=ON -DKNOLL_PRECOMPILE=ON)
    sets=portable
    ;;
  address)
    flags=(-DKNOLL_SANITIZE=address,undefined -DKNOLL_PRECOMPILE=ON -DKNOLL_WERROR=ON)
    sets=${sets##* } # the widest alone: the kernels are one body, and sanitizers are slow
    export KNOLL_TEST_QUICK=1
    ;;
  thread)
    second_compiler -fsanitize=thread
    flags+=(-DKNOLL_SANITIZE=thread -DKNOLL_WERROR=ON -DKNOLL_PRECOMPILE=ON)
    sets=${sets##* }
    export KNOLL_TEST_QUICK=1
    # The shadow memory of older ThreadSanitizers has no place for strongly randomised addresses.
    if setarch -R true 2>/dev/null; then runner=(setarch -R); fi
    ;;
  old-x86)
    [ "$(uname -m)" = x86_64 ] || skip "this machine is not x86-64"
    need qemu-x86_64 qemu-user
    build=$(scripts/installed-build.sh)
    runner=(qemu-x86_64 -cpu Nehalem)
    sets=baseline
    export KNOLL_TEST_QUICK=1
    ;;
  arm)
    need aarch64-linux-gnu-g++ g++-aarch64-linux-gnu
    need qemu-aarch64 qemu-user
    # Linked statically: then the emulator needs no root file system of that machine.
    flags=(-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++
           -DCMAKE_EXE_LINKER_FLAGS=-static -DKNOLL_WERROR=ON -DKNOLL_PRECOMPILE=ON)
    runner=(qemu-aarch64)
    sets=portable
    export KNOLL_TEST_QUICK=1
    ;;
  *)
    echo "core-tests.sh: no variant is called '$variant'" >&2
    exit 1
    ;;
esac

if [ ${#flags[@]} -gt 0 ]; then flags+=(-S . -G Ninja -DKNOLL_PYTHON=OFF); fi
cmake -B "$build" -DKNOLL_TESTS=ON ${flags[@]+"${flags[@]}"}
cmake --build "$build" --target core_tests

# Two processes share the cases, since most of these use one thread.
for set in $sets; do
  echo "== $variant: KNOLL_ISA=$set"
  KNOLL_ISA=$set KNOLL_TEST_SHARD=1/2 ${runner[@]+"${runner[@]}"} "$build/core_tests" >"$build/second-half.txt" 2>&1 &
  second=$!
  status=0
  KNOLL_ISA=$set KNOLL_TEST_SHARD=0/2 ${runner[@]+"${runner[@]}"} "$build/core_tests" || status=$?
  wait $second || status=$?
  cat "$build/second-half.txt"
  [ $status -eq 0 ] || exit $status
done
