// Is every number finite? x·0 is 0 for a finite x and NaN for any other; a sum of zeros is zero, and NaN stays.

// Four independent chains hide the latency of an addition.
static bool finite_f64(const double* x, int64_t n) {
  f64 s[4] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int v = 0; v < 4; ++v) s[v] += load(x + i + 4 * v) * broadcast(0.0);
  double sum = hsum((s[0] + s[1]) + (s[2] + s[3]));
  for (; i < n; ++i) sum += x[i] * 0.0;
  return sum == 0.0;
}

static bool finite_f32(const float* x, int64_t n) {
  f32 s[4] = {};
  int64_t i = 0;
  for (; i + 32 <= n; i += 32)
    for (int v = 0; v < 4; ++v) {
      // Eight numbers a vector: nothing needs to be widened.
      f32 lanes;
      __builtin_memcpy(&lanes, x + i + 8 * v, sizeof lanes);
      s[v] += lanes * 0.0f;
    }
  const f32 all = (s[0] + s[1]) + (s[2] + s[3]);
  float sum = 0.0f;
  for (int l = 0; l < kLanes32; ++l) sum += all[l];
  for (; i < n; ++i) sum += x[i] * 0.0f;
  return sum == 0.0f;
}
