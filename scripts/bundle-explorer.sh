#!/usr/bin/env bash
# Joins the modules of the explorer into the one file that is shipped. Only developers need node; esbuild comes from npm.
#   scripts/bundle-explorer.sh          write src/knoll/explorer/web/explorer.js, after a check of the types
#   scripts/bundle-explorer.sh FILE     write another file, without the check: for the test that compares the two
set -euo pipefail

cd "$(dirname "$0")/.."
tools=build/node
if [ ! -x $tools/node_modules/.bin/esbuild ]; then
  npm install --silent --no-audit --no-fund --prefix $tools esbuild@0.28.2 typescript@7.0.2 >&2
fi
web=src/knoll/explorer/web
if [ $# -eq 0 ]; then $tools/node_modules/.bin/tsc -p $web/source/tsconfig.json; fi
$tools/node_modules/.bin/esbuild $web/source/app.js --bundle --minify --charset=utf8 --format=esm --target=es2022 \
  --log-level=warning --outfile="${1:-$web/explorer.js}"
