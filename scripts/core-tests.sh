#!/usr/bin/env bash
# core-tests.sh VARIANT: build the core and its tests in build/core-VARIANT and run them, once per instruction set.
#
#   release    the library as it is installed   clang        warnings are errors, the widest kernels
#   portable   no instruction set is assumed    address      AddressSanitizer and UndefinedBehaviorSanitizer, g++'s
#   thread     ThreadSanitizer                               warnings are errors
#   arm        cross-compiled and emulated      old-x86      release on an emulated processor without AVX
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
  clang)
    need clang++ clang
    version=$(clang++ -dumpversion)
    [ "${version%%.*}" -ge 14 ] || skip "clang++ is $version, and knoll is held to 14 or later"
    flags=(-DCMAKE_CXX_COMPILER=clang++ -DKNOLL_WERROR=ON -DKNOLL_PRECOMPILE=ON)
    sets=${sets##* } # the widest alone: `release` runs the others
    ;;
  portable)
    flags=(-DKNOLL_PORTABLE=ON -DKNOLL_WERROR=ON -DKNOLL_PRECOMPILE=ON)
    sets=portable
    ;;
  address)
    flags=(-DKNOLL_SANITIZE=address,undefined -DKNOLL_PRECOMPILE=ON -DKNOLL_WERROR=ON)
    sets=${sets##* } # the widest alone: the kernels are one body, and sanitizers are slow
    export KNOLL_TEST_QUICK=1
    ;;
  thread)
    flags=(-DKNOLL_SANITIZE=thread -DKNOLL_PRECOMPILE=ON)
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
