// The climb: Mean Shift and the climbing DBSCAN.
#include "door.hpp"

namespace knoll::python {

void bind_climb(nb::module_&) {}

}  // namespace knoll::python
