#!/usr/bin/env bash
# fuzz-address.sh [SECONDS [SEED]]: build the extension module with AddressSanitizer and UndefinedBehaviorSanitizer in
# build/core-python-address, and fuzz all its functions (fuzz/bindings.py). The installed module stays as it is.
set -euo pipefail

seconds=${1:-600}
seed=${2:-0}
build=build/core-python-address
PATH=$PWD/$VENV/bin:$PATH     # cmake and ninja
compiler=${CXX:-c++}

# The interpreter is not built with sanitizers, so their runtime is loaded first. That of clang is another file.
runtime=
for name in libasan.so "libclang_rt.asan-$(uname -m).so" libclang_rt.asan.so; do
  file=$("$compiler" -print-file-name="$name")
  if [ "$file" != "$name" ] && [ -e "$file" ]; then
    runtime=$file
    break
  fi
done
if [ -z "$runtime" ]; then
  echo "$compiler has no shared AddressSanitizer runtime"
  exit 77
fi
flags=()
case $runtime in
  *clang_rt*) flags=(-DCMAKE_CXX_FLAGS=-shared-libasan -DCMAKE_MODULE_LINKER_FLAGS=-shared-libasan) ;;
esac

version=$("$VENV/bin/python" -c 'import knoll; print(knoll.__version__)')
cmake -S . -B "$build" -G Ninja -DKNOLL_SANITIZE=address,undefined -DPython_EXECUTABLE="$PWD/$VENV/bin/python" \
  -DSKBUILD_PROJECT_VERSION="$version" ${flags[@]+"${flags[@]}"}
cmake --build "$build" --target _core
core=$(ls "$PWD/$build"/_core*.so)

# What is too large to allocate becomes a refusal rather than an attempt; libstdc++ is named since exceptions are thrown
# before the module that links it is loaded.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=4000
export UBSAN_OPTIONS=print_stacktrace=1
exec "$VENV/bin/python" -m fuzz.bindings --core "$core" --preload "$runtime $("$compiler" -print-file-name=libstdc++.so.6)" \
  --seconds "$seconds" --seed "$seed"
