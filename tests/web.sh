#!/bin/sh
# web.sh - `make web`: the page is built, and works in headless Chromium (web.js). Skipped where there is no Emscripten,
# node or Chromium. Reports in TAP; screenshots and logs are in build/web-test/.
set -u
cd "$(dirname "$0")/.."
work=build/web-test
rm -rf $work
mkdir -p $work

for tool in emcc node chromium; do
    command -v $tool >/dev/null 2>&1 && continue
    echo "ok 1 # SKIP the playground: there is no $tool"
    echo 1..1
    exit 0
done

if ! ${MAKE:-make} --no-print-directory web >$work/make.log 2>&1; then
    echo "not ok 1 - page_is_built"
    sed 's/^/# /' $work/make.log | tail -n 20
    echo 1..1
    exit 1
fi
node tests/web.js build/web/index.html $work
