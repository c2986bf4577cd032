#!/bin/bash -eu
# Called by ClusterFuzzLite with CC, CFLAGS, LIB_FUZZING_ENGINE and OUT. jansson and libseccomp are linked
# statically, as the image that runs the targets hasn't got them.
cd "$SRC/sallyport"
python3 fuzz/run.py --build "$OUT"
