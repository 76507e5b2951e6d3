// A borrowed sparse matrix in compressed rows. Column indices of a row may stand in any order; entries that name the
// same column add up, as they do in the dense matrix; zeros may be stored.
#pragma once

#include <algorithm>
#include <cstdint>

namespace knoll {

template <class T, class I, class P = I>
struct Csr {
  const T* data = nullptr;     // (entries)
  const I* indices = nullptr;  // (entries), each in [0, columns)
  const P* indptr = nullptr;   // (rows + 1)
  int64_t rows = 0, columns = 0;

  int64_t begin(int64_t row) const { return static_cast<int64_t>(indptr[row]); }
  int64_t end(int64_t row) const { return static_cast<int64_t>(indptr[row + 1]); }

  // out[j · stride] = the dense row.
  void unpack(int64_t row, double* out, int64_t stride) const {
    for (int64_t j = 0; j < columns; ++j) out[j * stride] = 0.0;
    for (int64_t p = begin(row); p < end(row); ++p)
      out[static_cast<int64_t>(indices[p]) * stride] += static_cast<double>(data[p]);
  }
};

// body(j, value) for the columns of a row that are not 0, each once: entries that name one column are added first, as
// the dense matrix would have them. dense (columns) is zero before and after.
template <class T, class I, class P, class F>
void for_merged_entries(Csr<T, I, P> x, int64_t row, double* dense, F&& body) {
  bool rising = true;
  for (int64_t p = x.begin(row) + 1; p < x.end(row); ++p) rising &= x.indices[p] > x.indices[p - 1];
  if (rising) {  // no column twice
    for (int64_t p = x.begin(row); p < x.end(row); ++p)
      if (x.data[p] != 0) body(static_cast<int64_t>(x.indices[p]), static_cast<double>(x.data[p]));
    return;
  }
  for (int64_t p = x.begin(row); p < x.end(row); ++p)
    dense[static_cast<int64_t>(x.indices[p])] += static_cast<double>(x.data[p]);
  for (int64_t p = x.begin(row); p < x.end(row); ++p) {
    const auto j = static_cast<int64_t>(x.indices[p]);
    const double v = dense[j];
    dense[j] = 0;  // a duplicate index later adds nothing
    if (v != 0) body(j, v);
  }
}

}  // namespace knoll
