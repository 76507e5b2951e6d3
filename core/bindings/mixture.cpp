// Gaussian mixtures: the passes of EM.
#include "door.hpp"

namespace knoll::python {

void bind_mixture(nb::module_&) {}

}  // namespace knoll::python
