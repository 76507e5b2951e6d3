// k-means: assignment, sums of the clusters, seeding.
#include "door.hpp"

namespace knoll::python {

void bind_kmeans(nb::module_&) {}

}  // namespace knoll::python
