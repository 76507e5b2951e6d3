#include "common/rounding.hpp"

#include <limits>

#include "check.hpp"

using namespace knoll;

TEST("outward: never on the wrong side, also beyond float32 and where there is no number") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  constexpr double wide = std::numeric_limits<double>::infinity();
  for (double size : {0.0, 1e-320, 1e-300, 1e-45, 1e-40, 0.1, 1.0, 3e38, 3.5e38, 1e39, 1e300, wide})
    for (double v : {size, -size}) {
      CHECK(static_cast<double>(above(v)) >= v && static_cast<double>(below(v)) <= v);
      CHECK(above(v) == -below(-v));
    }
  CHECK(above(-1e300) > -inf && below(1e300) < inf);
  const double none = std::numeric_limits<double>::quiet_NaN();
  CHECK(above(none) == inf && below(none) == -inf);
}
