// The spatial index and the DBSCAN that runs over it.
#include "door.hpp"

namespace knoll::python {

void bind_index(nb::module_&) {}

}  // namespace knoll::python
