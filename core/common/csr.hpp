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

}  // namespace knoll
