#!/usr/bin/env bash
# check-symbols.sh: the objects of one instruction set may offer the linker nothing outside their own namespace.
#
# Two files that both instantiate, say, std::vector<int>::push_back give the linker a free choice. Had it taken the one
# compiled for AVX2, a machine without AVX2 would crash in code that never asked for it.
set -euo pipefail

[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || { echo "only an x86-64 build has objects of several instruction sets"; exit 77; }
build=$(scripts/installed-build.sh)

# leaks OBJECT NAMESPACE: the external symbols that OBJECT defines outside knoll::NAMESPACE.
leaks() {
  nm --defined-only --extern-only "$1" | awk '{ print $NF }' |
    { grep -vE "^_Z(T[VTIS]|GV)?(Z?N)K?5knoll${#2}$2" || true; } | c++filt
}

# A check must be able to fail: this object leaks, and must be caught.
trap 'rm -rf "$scratch"' EXIT
scratch=$(mktemp -d)
cat >"$scratch/leak.cpp" <<'CPP'
#include <vector>
namespace knoll::avx2 {
void fill(std::vector<int>& v) { v.push_back(1); }
}
CPP
g++ -std=c++20 -O0 -c "$scratch/leak.cpp" -o "$scratch/leak.o"
if [ -z "$(leaks "$scratch/leak.o" avx2)" ]; then
  echo "check-symbols.sh is blind: it found no leak in an object that has one"
  exit 1
fi

status=0
for set in baseline avx2; do
  object=$build/CMakeFiles/knoll_core.dir/core/simd/$set.cpp.o
  own=$(nm --defined-only --extern-only "$object" | wc -l)
  found=$(leaks "$object" "$set")
  if [ "$own" -eq 0 ]; then
    echo "$object defines nothing: is it the right file?"
    status=1
  elif [ -n "$found" ]; then
    echo "$object offers symbols outside knoll::$set:"
    echo "$found"
    status=1
  fi
done
exit $status
