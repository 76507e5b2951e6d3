"""The Earth as a sphere."""

EARTH_RADIUS = 6_371_008.8  # metres, the mean radius
